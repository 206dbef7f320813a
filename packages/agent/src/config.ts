/**
 * What the agent may do, and with how much memory and bandwidth: from a file, or the defaults for
 * one user's own jobs.
 */

import { readFile, realpath } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import process from 'node:process';
import { CheckpointError, type RetentionPolicy, SETTINGS } from '@holdfast/core';
import { fileError } from '@holdfast/local-files';
import * as z from 'zod';

const run = z.strictObject({
  uri: z.string().min(1),
  retention: z.record(z.string(), z.unknown()).optional(),
});

const configFile = z.strictObject({
  /** Names that trainers use instead of URIs. */
  runs: z.record(z.string(), run).default({}),
  /**
   * Beginnings of the URIs that trainers may name, each with the settings of its store after a `?`.
   * Default: all, or none with a token.
   */
  uris: z.array(z.string().min(1)).optional(),
  /**
   * Directories whose files may be saved, and to which may be restored. Default: all, or none with
   * a token.
   */
  roots: z.array(z.string().startsWith('/')).optional(),
  /**
   * A file with the token that each request must bring. With a token, the group of the socket may
   * use it too.
   */
  tokenFile: z.string().startsWith('/').optional(),
  /** User ids whose files may be saved besides the agent's own. */
  owners: z.array(z.int().min(0)).default([]),
  /** For all saves, restores and reads together. */
  bufferBytes: z.int().min(SETTINGS.bufferBytes.min).max(SETTINGS.bufferBytes.max).optional(),
  workers: z.int().optional(),
  saveBytesPerSecondMax: z.int().min(1).optional(),
});

type ConfigFile = z.infer<typeof configFile>;

export interface RunConfig {
  readonly uri: string;
  readonly retention: RetentionPolicy | undefined;
}

export class Config {
  readonly host = hostname();
  /** Without links. */
  readonly roots: readonly string[];
  readonly owners: readonly number[];
  readonly token: string | undefined;
  readonly #file: ConfigFile;

  private constructor(file: ConfigFile, roots: readonly string[], token: string | undefined) {
    this.#file = file;
    this.roots = roots;
    this.token = token;
    this.owners = [process.getuid?.() ?? -1, ...file.owners];
  }

  /** `path`: none for the defaults. `InvalidConfig`, `NotFound`, `Denied`: names what is wrong. */
  static async load(path?: string): Promise<Config> {
    const file = parse(path ?? 'the defaults', path === undefined ? {} : await readJson(path));
    const isShared = file.tokenFile !== undefined;
    const given = file.roots ?? (isShared ? [] : ['/']);
    const roots = await Promise.all(
      given.map((root) =>
        realpath(root).catch((error: unknown) => {
          throw fileError(error, `find the root ${root}`, { path: root });
        }),
      ),
    );
    return new Config(file, roots, await readToken(file.tokenFile));
  }

  get bufferBytes(): number | undefined {
    return this.#file.bufferBytes;
  }

  get workers(): number | undefined {
    return this.#file.workers;
  }

  get saveBytesPerSecondMax(): number | null {
    return this.#file.saveBytesPerSecondMax ?? null;
  }

  /** URIs of the aliases whose rules no trainer may change. */
  get urisWithRules(): readonly string[] {
    const all = Object.values(this.#file.runs);
    return all.filter(({ retention }) => retention !== undefined).map(({ uri }) => uri);
  }

  /** The run of a URI or an alias. `Denied`: no trainer of this agent may use it. */
  async resolve(uri: string): Promise<RunConfig> {
    const named = Object.hasOwn(this.#file.runs, uri) ? this.#file.runs[uri] : undefined;
    // The engine checks the rules.
    if (named) return { uri: named.uri, retention: named.retention as RetentionPolicy | undefined };
    const { uris, tokenFile } = this.#file;
    if (uris === undefined && tokenFile === undefined) return { uri, retention: undefined };
    for (const start of uris ?? []) {
      const allowed = within(uri, start);
      if (allowed !== null && (await staysWithin(allowed, start)))
        return { uri: allowed, retention: undefined };
    }
    const names = Object.keys(this.#file.runs).join(', ') || 'none';
    throw new CheckpointError(
      'Denied',
      `the agent's configuration does not allow this run (aliases: ${names})`,
    );
  }

  /**
   * A directory that a restore may make. A shared agent makes none: between a look at a path and
   * the writing, its owner could lead the path elsewhere. `InvalidArgument`, `Denied`.
   */
  async assertMayWrite(path: string): Promise<void> {
    const refuse = (code: 'InvalidArgument' | 'Denied', what: string) =>
      new CheckpointError(code, `${path} ${what}`, { context: { path } });
    if (!path.startsWith('/')) throw refuse('InvalidArgument', 'is not an absolute path');
    if (this.token !== undefined)
      throw refuse('Denied', 'is not written by a shared agent; read the files by GET /v1/files');
    const place = await realPlace(resolve(path));
    if (this.roots.some((root) => root === '/' || place.startsWith(`${root}/`))) return;
    throw refuse('Denied', `lies outside the directories of this agent (${this.roots.join(', ') || 'none'})`);
  }
}

/** What a path may hold: nothing that a store could read as another path. */
const PLAIN_PATH = /^[a-z][a-z0-9+.-]*:\/\/[\w./@+=,~ -]+$/;

/**
 * The run of `uri`, with the settings of `allowed`; `null`: it does not lie in it. `allowed` ends
 * at a slash: `s3://bucket/a` allows `s3://bucket/a/b`, and not `s3://bucket/ab`. A trainer chooses
 * no settings: the agent would send its credentials to an endpoint that a trainer names.
 */
function within(uri: string, allowed: string): string | null {
  const [start = '', settings] = splitOnce(allowed, '?');
  const [path = '', given] = splitOnce(uri, '?');
  const isPlain = PLAIN_PATH.test(path) && !path.split('/').some((part) => part === '.' || part === '..');
  const isBelow = path === start || path.startsWith(start.endsWith('/') ? start : `${start}/`);
  if (!isPlain || !isBelow || (given !== undefined && given !== settings)) return null;
  return settings === undefined ? path : `${path}?${settings}`;
}

/** A link below a directory may lead out of it. */
async function staysWithin(uri: string, allowed: string): Promise<boolean> {
  if (!uri.startsWith('file://')) return true;
  const pathOf = (text: string) => (splitOnce(text, '?')[0] as string).slice('file://'.length);
  const [place, root] = [await realPlace(resolve(pathOf(uri))), await realPlace(resolve(pathOf(allowed)))];
  return place === root || place.startsWith(root.endsWith('/') ? root : `${root}/`);
}

function splitOnce(text: string, at: string): [string, string | undefined] {
  const index = text.indexOf(at);
  return index === -1 ? [text, undefined] : [text.slice(0, index), text.slice(index + 1)];
}

/** The path without links, as far as it exists. */
export async function realPlace(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const above = dirname(path);
    return above === path
      ? path
      : `${(await realPlace(above)).replace(/\/$/, '')}/${path.slice(above.length).replace(/^\//, '')}`;
  }
}

function parse(path: string, value: unknown): ConfigFile {
  const parsed = configFile.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(
    ({ path: at, message }) => `${at.join('.') || 'the whole'}: ${message}`,
  );
  throw new CheckpointError('InvalidConfig', `${path}: ${problems.join('; ')}`, { context: { path } });
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CheckpointError('InvalidConfig', `${path} is not JSON`, { context: { path }, cause: error });
  }
}

async function readToken(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const token = (await readText(path)).trim();
  if (/^[\x21-\x7e]{16,512}$/.test(token)) return token;
  const message = `${path} holds no token: 16 to 512 printable characters without spaces`;
  throw new CheckpointError('InvalidConfig', message, { context: { path } });
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw fileError(error, `read ${path}`, { path });
  }
}
