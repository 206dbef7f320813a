/**
 * Reads the files of AWS tools: `~/.aws/config` and `~/.aws/credentials`, or those that
 * `AWS_CONFIG_FILE` and `AWS_SHARED_CREDENTIALS_FILE` name. As the AWS SDK does, with which tests
 * compare it: always by the environment of the process, and a file that cannot be read is empty.
 */

import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { environmentOfTools } from './env.ts';

export type ProfileSettings = Readonly<Record<string, string>>;

export interface AwsFiles {
  /** By the name of the profile. */
  readonly config: ReadonlyMap<string, ProfileSettings>;
  readonly credentials: ReadonlyMap<string, ProfileSettings>;
}

const DEFAULT_PROFILE = 'default';

export async function readAwsFiles(): Promise<AwsFiles> {
  const { AWS_CONFIG_FILE: config, AWS_SHARED_CREDENTIALS_FILE: credentials } = environmentOfTools();
  const [ofConfig, ofCredentials] = await Promise.all([
    sectionsOf(config || join(homeDirectory(), '.aws', 'config')),
    sectionsOf(credentials || join(homeDirectory(), '.aws', 'credentials')),
  ]);
  return { config: profilesOfConfig(ofConfig), credentials: ofCredentials };
}

/** Settings of a profile. Those of the file that is `preferred` override those of the other. */
export function profileSettings(
  { config, credentials }: AwsFiles,
  profile: string | undefined,
  preferred: 'config' | 'credentials',
): ProfileSettings {
  const name = profile ?? (environmentOfTools()['AWS_PROFILE'] || DEFAULT_PROFILE);
  const [low, high] = preferred === 'config' ? [credentials, config] : [config, credentials];
  return { ...low.get(name), ...high.get(name) };
}

function homeDirectory(): string {
  const { HOME, USERPROFILE, HOMEPATH, HOMEDRIVE = 'C:\\' } = environmentOfTools();
  return HOME || USERPROFILE || (HOMEPATH ? `${HOMEDRIVE}${HOMEPATH}` : homedir());
}

async function sectionsOf(path: string): Promise<ReadonlyMap<string, ProfileSettings>> {
  const atHome = path.startsWith('~/') ? join(homeDirectory(), path.slice(2)) : path;
  const text = await readFile(atHome, 'utf8').catch(() => '');
  return parseIni(text);
}

/** In the configuration, a section is called `default` or `profile NAME`. */
function profilesOfConfig(
  sections: ReadonlyMap<string, ProfileSettings>,
): ReadonlyMap<string, ProfileSettings> {
  const profiles = new Map<string, ProfileSettings>();
  const ofDefault = sections.get(DEFAULT_PROFILE);
  if (ofDefault !== undefined) profiles.set(DEFAULT_PROFILE, ofDefault);
  for (const [name, settings] of sections) {
    if (name.startsWith(PROFILE)) profiles.set(name.slice(PROFILE.length), settings);
  }
  return profiles;
}

const PROFILE = 'profile.';
/** `[profile x]`, `[profile "x"]`. */
const WITH_KIND = /^([\w-]+)\s(["'])?([\w@+.%:/-]+)\2$/;
const KINDS = ['profile', 'sso-session', 'services'];

/**
 * Sections with at least one setting. `[kind name]` is called `kind.name`, and a nested setting
 * `outer.inner`.
 */
function parseIni(text: string): ReadonlyMap<string, ProfileSettings> {
  const sections = new Map<string, Record<string, string>>();
  let section = '';
  let outer = '';
  for (const line of text.split(/\r?\n/)) {
    const words = (line.split(/(?:^|\s)[;#]/)[0] ?? '').trim();
    if (/^\[.*\]$/s.test(words)) {
      const name = words.slice(1, -1);
      // The SDK rejects such a file as a whole.
      if (name === '__proto__' || name === 'profile __proto__') return new Map();
      section = sectionName(name);
      outer = '';
      continue;
    }
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(words)?.map((part) => part.trim()) ?? [];
    if (section === '' || name === undefined) continue;
    if (value === '' || value === undefined) {
      outer = name;
      continue;
    }
    if (!/^\s/.test(line)) outer = '';
    const settings = sections.get(section) ?? {};
    settings[outer === '' ? name : `${outer}.${name}`] = value;
    sections.set(section, settings);
  }
  return sections;
}

/** Empty: its settings are ignored. */
function sectionName(words: string): string {
  const [, kind, , name] = WITH_KIND.exec(words) ?? [];
  if (kind === undefined) return words;
  return KINDS.includes(kind) ? `${kind}.${name}` : '';
}
