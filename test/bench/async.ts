/**
 * `bench async`: measures how long a background save blocks a training step. It compares that with
 * a plain copy of the same bytes and with a save that is awaited.
 */

import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { RunManager } from '@holdfast/core';
import { openCheckpointManager } from '@holdfast/stores';
import { AsyncSaver, DirectoryStaging, MemoryStaging } from '@holdfast/training';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { makePattern, parseShape } from './s3/shapes.ts';
import { spread } from './statistics.ts';

/** Covers the copy itself and its yields to the event loop. */
const COPY_RATIO_MAX = 1.5;
/** Makes the target the slower side, because a copy must not wait for the target. */
const THROTTLED_BYTES_PER_SECOND = 256 * 1024 * 1024;
/** MemoryStaging yields to the event loop after each 32 MiB. */
const LOOP_RESOLUTION_MS = 1;
/** The monitor measures from one of its timers to the next. */
const LOOP_WARM_UP_MS = 20;

const KINDS = ['copy', 'first', 'later', 'throttled', 'directory', 'synchronous'] as const;
type Kind = (typeof KINDS)[number];

const TITLES: Readonly<Record<Kind, string>> = {
  copy: 'a plain copy into memory that was used before',
  first: 'saveAsync, the first of a saver',
  later: 'saveAsync, later ones',
  throttled: 'saveAsync, later ones, sent at 256 MiB/s',
  directory: 'saveAsync, copied to --staging',
  synchronous: 'save, waited for',
};

export interface AsyncRun {
  readonly kind: Kind;
  /** Time for which the step is blocked. */
  readonly blockedMs: number;
  /** Time from the call to the commit, or 0 for a copy. */
  readonly totalMs: number;
  /** Longest time for which the event loop was blocked while the step was blocked. */
  readonly loopBlockedMs: number;
}

export interface AsyncReport {
  readonly conditions: string;
  /** In the order of their rounds. */
  readonly runs: readonly AsyncRun[];
}

/** Prints tables and writes `async.json` and `.md`. Resolves to false if a target was missed. */
export async function benchAsync(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '64MiB' },
      dir: { type: 'string', default: tmpdir() },
      staging: { type: 'string' },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false }, // it always runs the sources
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const shape = parseShape(`16x${values.size}`);
  return inNewDirectory(values.dir, async (directory) => {
    // All saves of a round stay until its end.
    assertRoom(shape.name, directory, 6 * 16 * shape.fileBytes);
    const state = new TrainingState(shape.fileBytes);
    const runs: AsyncRun[] = [];
    for (let round = 0; round < rounds; round++) {
      const run = join(directory, `run-${round}`);
      runs.push(...(await measureRound(state, pathToFileURL(run).href, values.staging)));
      rmSync(run, { recursive: true, force: true });
      say(`round ${round + 1}`);
    }
    const conditions = `${machineText()}; ${shape.name} in memory, to the local disk; ${rounds} rounds, median [min–max]`;
    const report: AsyncReport = { conditions, runs };
    const verdicts = asyncVerdicts(report);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(report)].join('\n\n')}\n`;
    publish('async', { markdown, json: { ...report, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

/** 16 buffers, all of which every step changes, so that no save finds an unchanged one. */
class TrainingState {
  readonly buffers: Readonly<Record<string, Uint8Array>>;
  readonly sizeBytes: number;
  readonly #copies: readonly Uint8Array[];
  #step = 0;

  constructor(fileBytes: number) {
    const pattern = makePattern();
    const names = Array.from({ length: 16 }, (_, index) => `weights-${index}`);
    this.buffers = Object.fromEntries(
      names.map((name, index) => {
        const bytes = Buffer.alloc(fileBytes, pattern);
        bytes[0] = index;
        return [name, bytes];
      }),
    );
    this.sizeBytes = 16 * fileBytes;
    this.#copies = names.map(() => Buffer.alloc(fileBytes, 1));
  }

  change(): void {
    this.#step += 1;
    for (const bytes of Object.values(this.buffers)) new DataView(bytes.buffer).setUint32(4, this.#step);
  }

  copy(): void {
    for (const [index, bytes] of Object.values(this.buffers).entries()) this.#copies[index]?.set(bytes);
  }
}

async function measureRound(
  state: TrainingState,
  uri: string,
  stagingDirectory: string | undefined,
): Promise<AsyncRun[]> {
  await using manager = await openCheckpointManager(uri);
  const bytesMax = state.sizeBytes;
  await using saver = new AsyncSaver(manager, { staging: new MemoryStaging({ bytesMax }) });
  const runs = [
    await measure('synchronous', () => manager.save({ buffers: state.buffers }), state),
    await measure('copy', async () => state.copy(), state),
    await measure('first', () => saver.saveAsync({ buffers: state.buffers }), state, saver),
    await measure('later', () => saver.saveAsync({ buffers: state.buffers }), state, saver),
    await throttled(manager, state, saver),
  ];
  if (stagingDirectory === undefined) return runs;
  const staging = new DirectoryStaging({ directory: stagingDirectory });
  await using other = new AsyncSaver(manager, { staging });
  const save = () => other.saveAsync({ buffers: state.buffers });
  return [...runs, await measure('directory', save, state, other)];
}

async function throttled(manager: RunManager, state: TrainingState, saver: AsyncSaver): Promise<AsyncRun> {
  manager.throttle.setBytesPerSecondMax(THROTTLED_BYTES_PER_SECOND);
  const run = await measure('throttled', () => saver.saveAsync({ buffers: state.buffers }), state, saver);
  manager.throttle.setBytesPerSecondMax(null);
  return run;
}

async function measure(
  kind: Kind,
  call: () => Promise<unknown>,
  state: TrainingState,
  saver?: AsyncSaver,
): Promise<AsyncRun> {
  state.change();
  const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  loop.enable();
  await sleep(LOOP_WARM_UP_MS);
  const beganMs = performance.now();
  await call();
  const blockedMs = performance.now() - beganMs;
  await sleep(LOOP_RESOLUTION_MS); // lets the monitor's timer run once more
  loop.disable();
  await saver?.settled();
  const totalMs = kind === 'copy' ? 0 : performance.now() - beganMs;
  return { kind, blockedMs, totalMs, loopBlockedMs: loop.max / 1e6 };
}

export function asyncVerdicts({ runs }: AsyncReport): Verdict[] {
  const blocked = (kind: Kind) => valuesOf(runs, kind, ({ blockedMs }) => blockedMs);
  const toCopy = (kind: Kind) => ratios(blocked(kind), blocked('copy'));
  const told = { what: 'directory: held up, in plain copies', values: toCopy('directory') };
  return [
    {
      what: 'later ones: held up, in plain copies',
      values: toCopy('later'),
      wanted: { atMost: COPY_RATIO_MAX },
    },
    {
      what: 'later ones, throttled: held up, in plain copies',
      values: toCopy('throttled'),
      wanted: { atMost: COPY_RATIO_MAX },
    },
    { what: 'the first: held up, in plain copies', values: toCopy('first') },
    { what: 'save, waited for, in later ones', values: ratios(blocked('synchronous'), blocked('later')) },
    ...(told.values.length > 0 ? [told] : []),
  ];
}

function valuesOf(runs: readonly AsyncRun[], kind: Kind, value: (run: AsyncRun) => number): number[] {
  return runs.filter((run) => run.kind === kind).map(value);
}

function tableOf({ runs }: AsyncReport): string {
  const rows = KINDS.filter((kind) => runs.some((run) => run.kind === kind)).map((kind) => [
    TITLES[kind],
    spread(
      valuesOf(runs, kind, ({ blockedMs }) => blockedMs),
      0,
    ),
    spread(
      valuesOf(runs, kind, ({ loopBlockedMs }) => loopBlockedMs),
      0,
    ),
    kind === 'copy'
      ? ''
      : spread(
          valuesOf(runs, kind, ({ totalMs }) => totalMs),
          0,
        ),
  ]);
  return markdownTable(
    ['what', 'held up, ms', 'event loop without a turn, ms', 'until the commit, ms'],
    rows,
  );
}
