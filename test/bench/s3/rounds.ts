/** The measured runs of one shape. Peers take turns within each round. */

import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { InstalledPeer, Job } from './peers.ts';
import { measureProcess, type ProcessCost, runToEnd } from './process-cost.ts';
import { assertRestored, fileName, type Shape, totalBytes } from './shapes.ts';
import { assertStored, clientEnv, removePrefix, type Target } from './targets.ts';

/** `one`: only one file of the shape, to the disk. `range`: a quarter of one. */
export const DESTINATIONS = ['disk', 'tmpfs', 'nowhere', 'one', 'range'] as const;
export type Destination = (typeof DESTINATIONS)[number];
const ONE = 'download of one file to disk';
const RANGE = 'download of a quarter of one file to disk';
export type Action =
  | 'upload'
  | `download to ${Exclude<Destination, 'one' | 'range'>}`
  | typeof ONE
  | typeof RANGE;

/** One process, from its start to its end. */
export interface Run extends ProcessCost {
  readonly peer: string;
  readonly shape: string;
  readonly action: Action;
  readonly round: number;
  /** Time of the call alone, without loading the program. `null` for a command-line program. */
  readonly callMs: number | null;
  readonly callCpuMs: number | null;
  readonly serverCpuMs: number | null;
  /**
   * TCP connections that the server accepted and requests that it answered. `null` if the server
   * does not count.
   */
  readonly connections: number | null;
  readonly requests: number | null;
  readonly checksumHeaders: readonly string[];
}

export interface Failure {
  readonly peer: string;
  readonly shape: string;
  readonly round: number;
  readonly message: string;
}

export interface Series {
  readonly target: Target;
  readonly peers: readonly InstalledPeer[];
  readonly shape: Shape;
  /** Contains the files of the shape. */
  readonly source: string;
  readonly destinations: readonly Destination[];
  readonly rounds: number;
  /** A directory on the measured disk. */
  readonly directory: string;
  /** A directory on tmpfs. */
  readonly memoryDirectory: string;
  say(line: string): void;
}

/**
 * In each round every peer uploads, then downloads its upload to each destination. Then its objects
 * are deleted. Another peer begins each round, because leftovers (a cold cache, work of the server)
 * may slow the next peer. One upload before the first round is not counted, because it is the
 * server's first request. A peer that fails takes no part in later rounds.
 */
export async function runSeries(series: Series): Promise<{ runs: Run[]; failures: Failure[] }> {
  const runs: Run[] = [];
  const failures: Failure[] = [];
  const [first] = series.peers;
  if (first) await attempt(series, first, { round: -1, destinations: [] });
  for (let round = 0; round < series.rounds; round++) {
    const standing = series.peers.filter(({ name }) => !failures.some(({ peer }) => peer === name));
    for (let turn = 0; turn < standing.length; turn++) {
      const peer = standing[(round + turn) % standing.length] as InstalledPeer;
      const outcome = await attempt(series, peer, { round, destinations: series.destinations });
      if (Array.isArray(outcome)) runs.push(...outcome);
      else failures.push(outcome);
    }
  }
  return { runs, failures };
}

interface Turn {
  readonly round: number;
  readonly destinations: readonly Destination[];
}

async function attempt(series: Series, peer: InstalledPeer, turn: Turn): Promise<Run[] | Failure> {
  const prefix = `${series.shape.name}/${peer.name}/${turn.round}/`;
  try {
    return await takeTurn(series, peer, { ...turn, prefix });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    series.say(`${peer.name}, ${series.shape.name}: FAILED, left out from here on: ${message}`);
    return { peer: peer.name, shape: series.shape.name, round: turn.round, message };
  } finally {
    await removePrefix(series.target, prefix);
  }
}

async function takeTurn(
  series: Series,
  peer: InstalledPeer,
  { round, destinations, prefix }: Turn & { prefix: string },
): Promise<Run[]> {
  const { target, shape, source } = series;
  const measure = (action: Action, directory: string) =>
    runOne(series, peer, { action, directory, round, prefix });
  const runs = [await measure('upload', source)];
  await assertStored(target, prefix, { objectCount: shape.fileCount, sizeBytes: totalBytes(shape) });
  for (const destination of peer.isSketch ? [] : destinations) {
    if (destination === 'nowhere' && peer.name !== 'holdfast') continue;
    if (destination === 'range' && !peer.readsRanges) continue;
    const parent = destination === 'tmpfs' ? series.memoryDirectory : series.directory;
    const out = join(parent, 'out');
    mkdirSync(out);
    try {
      const action = actionTo(destination);
      runs.push(await measure(action, out));
      const names =
        filesOf(shape, action).fileCount === shape.fileCount ? readdirSync(source) : [fileName(0)];
      const range = action === RANGE ? rangeOf(shape) : undefined;
      // Comparing every byte in every round would take longer than the runs.
      if (destination !== 'nowhere') assertRestored(out, source, { names, range, compareBytes: round === 0 });
    } finally {
      rmSync(out, { recursive: true });
    }
  }
  return runs;
}

function actionTo(destination: Destination): Action {
  if (destination === 'one') return ONE;
  return destination === 'range' ? RANGE : `download to ${destination}`;
}

/** A quarter that begins and ends within parts. */
function rangeOf({ fileBytes }: Shape): readonly [number, number] {
  return [Math.floor(fileBytes * 0.3), Math.floor(fileBytes * 0.55)];
}

interface OneRun {
  readonly action: Action;
  readonly directory: string;
  readonly round: number;
  readonly prefix: string;
}

async function runOne(series: Series, peer: InstalledPeer, one: OneRun): Promise<Run> {
  const { target, shape } = series;
  const { endpoint, region, caPath } = target.access;
  const job: Job = {
    action: one.action === 'upload' ? 'upload' : one.action === RANGE ? 'range' : 'download',
    directory: one.directory,
    endpoint,
    region,
    bucket: target.bucket,
    prefix: one.prefix,
    ca: caPath ?? null,
    toNowhere: one.action === 'download to nowhere',
    only: one.action === ONE || one.action === RANGE ? fileName(0) : null,
    range: one.action === RANGE ? rangeOf(shape) : null,
  };
  const { program, args, env } = peer.start(job);
  // Flush the page cache first. Otherwise this peer pays for the writes of the previous one.
  await runToEnd({ program: 'sync', args: [], env: { PATH: process.env['PATH'] ?? '' } });
  await target.counts?.();
  const serverCpuMs = target.cpuMs?.();
  const { cost, stdout } = await measureProcess({
    program,
    args,
    env: { ...clientEnv(target, series.directory), ...env },
  });
  const serverCpuMsAfter = target.cpuMs?.();
  const counts = await target.counts?.();
  series.say(
    `${one.round < 0 ? 'warm-up' : `round ${one.round + 1}`}, ${shape.name}, ${one.action}, ${peer.name}: ${(cost.wallMs / 1000).toFixed(2)} s, cpu ${((cost.userMs + cost.systemMs) / 1000).toFixed(2)} s`,
  );
  return {
    peer: peer.name,
    shape: shape.name,
    action: one.action,
    round: one.round,
    ...cost,
    ...callCost(stdout),
    serverCpuMs:
      serverCpuMs === undefined || serverCpuMsAfter === undefined ? null : serverCpuMsAfter - serverCpuMs,
    connections: counts?.connections ?? null,
    requests: counts?.requests ?? null,
    checksumHeaders: counts?.checksumHeaders ?? [],
  };
}

/** Parses the last line of a driver's output. Other programs do not print it. */
export function callCost(stdout: string): { callMs: number | null; callCpuMs: number | null } {
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('{"callMs"')) return { callMs: null, callCpuMs: null };
  return JSON.parse(line) as { callMs: number; callCpuMs: number };
}

/** The files of the shape that an action moves. */
export function filesOf(shape: Shape, action: Action): Shape {
  if (action === ONE) return { ...shape, fileCount: 1 };
  if (action !== RANGE) return shape;
  const [startBytes, endBytes] = rangeOf(shape);
  return { ...shape, fileCount: 1, fileBytes: endBytes - startBytes };
}
