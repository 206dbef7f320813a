/**
 * The roles of docs/install.md on a GCS in this process that decides as Google's IAM does. Each
 * role can do its work with the named permissions, needs each of them, and cannot do another role's
 * work.
 */

import { appendFileSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import {
  contentOf,
  type Ended,
  holdfast,
  newPlace,
  type Place,
  writeFiles,
} from '../e2e/holdfast-process.ts';
import { FRESH, SURE } from '../e2e/roles.ts';
import { expectError } from '../e2e/s3-process.ts';
import { type SeenRequest, startScriptedServer } from '../scripted/scripted-server.ts';
import { BUCKET, FakeGcs, refusal } from './fake-gcs.ts';
import { xmlRefusal } from './fake-uploads.ts';
import { type Asked, askedOf, isXml } from './iam.ts';
import { isComplete, isPart } from './scripted-gcs.ts';

// Each test starts several processes, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ROLES = ['trainer', 'reader', 'collector'] as const;
type Role = (typeof ROLES)[number];

const RUN = 'gpt';
const MANUAL = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8');

/** Splits `storage.objects.get` and `.list` into two permissions. */
function permissionsIn(cell: string): string[] {
  let kind = '';
  return Array.from(cell.matchAll(/`(storage\.\w+)?(\.\w+)`/g), ([, named, verb]) => {
    kind = named ?? kind;
    return `${kind}${verb}`;
  });
}

/**
 * Grants of a role: `permission`, or `permission prefix` if it applies only to names with this
 * prefix.
 */
function grantsOf(role: Role): string[] {
  const [, everywhere = '', below = ''] =
    new RegExp(`^\\| ${role} \\| (\`storage.*?) \\| (.*?) ?\\|$`, 'm').exec(MANUAL) ?? [];
  const more = Array.from(below.matchAll(/`runs\/gpt\/(\w+\/)`/g), ([, prefix]) => `${RUN}/${prefix}`);
  const prefixes = [`${RUN}/leases/`, ...more];
  return [
    ...permissionsIn(everywhere),
    ...permissionsIn(below).flatMap((permission) => prefixes.map((prefix) => `${permission} ${prefix}`)),
  ];
}

const grants = Object.fromEntries(ROLES.map((role) => [role, grantsOf(role)])) as Record<Role, string[]>;
/** Grants that a request has needed. */
const used = new Set<string>();

function grantFor(role: Role, { permission, object }: Asked): string | undefined {
  return grants[role].find((grant) => {
    const [granted, prefix] = grant.split(' ');
    if (granted !== permission) return false;
    return prefix === undefined || object?.startsWith(prefix) === true;
  });
}

/** The role of the next request. */
let asking: Role;
/** Runs when a request has arrived. If it returns true, the request gets no answer. */
let meanwhile: ((request: SeenRequest) => boolean) | undefined;

function decide(request: SeenRequest) {
  for (const asked of askedOf(request)) {
    const grant = grantFor(asking, asked);
    if (grant === undefined) {
      const why = `Permission '${asked.permission}' denied`;
      return isXml(request) ? xmlRefusal(403, 'AccessDenied', why) : refusal(403, 'forbidden', why);
    }
    used.add(`${asking}: ${grant}`);
  }
  return undefined;
}

let fake: FakeGcs;
let uri: string;
let place: Place;

beforeAll(async () => {
  fake = new FakeGcs();
  const script = (request: SeenRequest) => {
    const refused = decide(request);
    if (refused === undefined && meanwhile?.(request) === true) return 'reset';
    return refused ?? fake.answer(request);
  };
  const { endpoint, stop } = await startScriptedServer(script, { keepsRequests: false });
  uri = `gs://${BUCKET}/${RUN}?${new URLSearchParams({ endpoint, uploads: 'multipart' })}`;
  place = await newPlace();
  // Large enough for an upload in parts.
  await writeFiles(place, 'model', {
    'model.bin': Buffer.alloc(20 * 1024 * 1024, 3),
    'notes.txt': 'hello',
  });
  return async () => {
    await stop();
    await place.remove();
  };
});

function as(role: Role, ...args: string[]): Promise<Ended> {
  asking = role;
  return holdfast([...args, '--quiet']);
}

async function expectDone(role: Role, ...args: string[]): Promise<void> {
  const { code, stderr } = await as(role, ...args);
  expect([stderr, code], args.join(' ')).toEqual(['', 0]);
}

const COLLECT = ['gc', '--keep', '1', '--grace', '0s', ...SURE];

test('a trainer saves, in parts too, and restores; it removes no checkpoint', async () => {
  for (const version of ['1', '2', '3'])
    await expectDone('trainer', 'save', place.path('model'), uri, '--version', version, ...FRESH);
  await expectDone('trainer', 'restore', uri, place.path('trainer'));
  expect(await contentOf(place.path('trainer'))).toEqual(await contentOf(place.path('model')));
  expectError(await as('trainer', ...COLLECT, uri), 'Denied', 8);
  await expectDone('reader', 'verify', uri, '--no-record');
});

test('a reader restores, looks and verifies; it saves nothing and pins nothing', async () => {
  await expectDone('reader', 'restore', uri, place.path('reader'), '--version', '2');
  for (const command of ['latest', 'list', 'show']) await expectDone('reader', command, uri);
  const saved = await as('reader', 'save', place.path('model'), uri, '--version', '9');
  expectError(saved, 'Denied', 8, 'cannot create object');
  const pinned = await as('reader', 'pin', uri, '--version', '3');
  expectError(pinned, 'Denied', 8, 'cannot create object catalog/');
});

/**
 * A trainer that is killed after sending all parts of a new file. Resolves to the words of its
 * command.
 */
async function killedTrainer(version: string): Promise<string[]> {
  await writeFile(place.path('model/model.bin'), Buffer.alloc(20 * 1024 * 1024, version));
  asking = 'trainer';
  let kill: (signal: NodeJS.Signals) => void = () => undefined;
  meanwhile = (request) => {
    if (isComplete(request)) kill('SIGKILL');
    return isComplete(request);
  };
  const onSpawn = (found: typeof kill) => {
    kill = found;
  };
  const words = ['save', place.path('model'), uri, '--version', version, '--attempt', `job-${version}`];
  const { code } = await holdfast(words, { onSpawn });
  meanwhile = undefined;
  expect([code, fake.uploads.begun.size]).toEqual([null, 1]);
  return words;
}

test('a trainer goes on with the upload of one that was killed, and takes its own back', async () => {
  await expectDone('trainer', ...(await killedTrainer('4')));
  expect(fake.uploads.begun.size).toBe(0);
  const file = place.path('model/model.bin');
  meanwhile = (request) => {
    if (isPart(request)) appendFileSync(file, 'more');
    return false;
  };
  const changed = await as('trainer', 'save', place.path('model'), uri, '--version', '5', ...FRESH);
  meanwhile = undefined;
  expectError(changed, 'SourceChanged', 75);
  expect(fake.uploads.begun.size).toBe(0);
});

test('a collector removes, also unfinished uploads, and verifies', async () => {
  await killedTrainer('6');
  await expectDone('trainer', 'save', place.path('model/notes.txt'), uri, '--version', '7', ...FRESH);
  await expectDone('collector', ...COLLECT, uri);
  expect(fake.uploads.begun.size).toBe(0);
  await expectDone('collector', 'verify', uri);
  const names = [...fake.objects.keys()].filter((name) => name.startsWith(`${RUN}/version_1/`));
  expect(names).toEqual([]);
});

test('no role has more than it needs', () => {
  const all = ROLES.flatMap((role) => grants[role].map((grant) => `${role}: ${grant}`));
  expect(all.filter((grant) => !used.has(grant))).toEqual([]);
});
