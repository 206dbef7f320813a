/** Starts, stops, freezes and kills writer processes. */

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expectThat } from './checks.ts';
import { type Model, WRITER_COUNT } from './model.ts';
import type { Command, Report, SaveCommand, WriterSetup } from './writer.ts';

const SCRIPT = fileURLToPath(new URL('./writer.ts', import.meta.url));
const running = new Set<ChildProcess>();

/** For the end of the demo, whatever its reason: no process that it started outlives it, a frozen one neither. */
export function killAll(): void {
  for (const child of running) child.kill('SIGKILL');
}

export type Saved = Extract<Report, { type: 'saved' }>;
export type Loaded = Extract<Report, { type: 'loaded' }>;
/** How a save ended: as the writer reports it, or `died` when it can report no more. */
export type SaveOutcome = Saved | Extract<Report, { type: 'failed' }> | { readonly type: 'died' };

export class Writer {
  readonly setup: WriterSetup;
  readonly #child: ChildProcess;
  readonly #died: Promise<void>;

  constructor(setup: WriterSetup) {
    this.setup = setup;
    // Detached: a terminal's Ctrl-C reaches the demo alone, and the demo ends its writers.
    this.#child = fork(SCRIPT, [JSON.stringify(setup)], { detached: true });
    running.add(this.#child);
    this.#died = new Promise((resolve) => {
      const isGone = () => {
        running.delete(this.#child);
        resolve();
      };
      this.#child.once('exit', isGone);
      this.#child.once('error', isGone); // it could not even be started
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Lets the training go on until `version`. */
  async train(version: number): Promise<void> {
    const trained = this.#reported('trained');
    this.#send({ type: 'train', version });
    if ((await trained) === null) throw new Error(`writer ${this.setup.index} died while it trained`);
  }

  async load(): Promise<Loaded> {
    const ended = this.#reported('loaded', 'failed');
    this.#send({ type: 'load' });
    const report = await ended;
    if (report?.type === 'loaded') return report;
    const why = report?.type === 'failed' ? report.message : 'it died';
    throw new Error(`writer ${this.setup.index} could not load its share: ${why}`);
  }

  async save(version: number, options: Partial<SaveCommand> = {}): Promise<SaveOutcome> {
    const ended = this.#reported('saved', 'failed');
    this.#send({ ...options, type: 'save', version });
    return ((await ended) as SaveOutcome | null) ?? { type: 'died' };
  }

  /** Resolves when the save that is under way has sent half of its last file; rejects if it ends before. */
  async halfway(): Promise<void> {
    const report = await this.#reported('halfway', 'saved', 'failed');
    if (report?.type === 'halfway') return;
    const why = report?.type === 'failed' ? `: ${report.message}` : '';
    throw new Error(`writer ${this.setup.index} ended before it was halfway${why}`);
  }

  /** SIGKILL: from one instruction to the next, the process is gone. */
  kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    return this.#died;
  }

  /** SIGSTOP: the process does nothing, and does not know it. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
    this.#send({ type: 'continue' });
  }

  close(): Promise<void> {
    this.#send({ type: 'close' });
    return this.#died;
  }

  #send(command: Command): void {
    this.#child.send(command, () => undefined); // an error means that the process died, and `#died` tells
  }

  /** The next report of one of these types; `null` if the process dies first. */
  async #reported(...types: Report['type'][]): Promise<Report | null> {
    const { promise, resolve } = Promise.withResolvers<Report | null>();
    const listen = (report: Report) => {
      if (types.includes(report.type)) resolve(report);
    };
    this.#child.on('message', listen);
    void this.#died.then(() => resolve(null));
    try {
      return await promise;
    } finally {
      this.#child.off('message', listen);
    }
  }
}

/** All writers of one attempt. */
export function startJob(setup: { uri: string; attempt: number; model: Model }): Writer[] {
  return Array.from({ length: WRITER_COUNT }, (_, index) => new Writer({ ...setup, index }));
}

export async function trainAll(writers: readonly Writer[], version: number): Promise<void> {
  await Promise.all(writers.map((writer) => writer.train(version)));
}

/** Fails as soon as one of them does: the others would wait for it. */
export function saveAll(
  writers: readonly Writer[],
  version: number,
  options: Partial<SaveCommand> = {},
): Promise<Saved[]> {
  return Promise.all(
    writers.map(async (writer) => {
      const outcome = await writer.save(version, options);
      expectThat(outcome.type === 'saved', `writer ${writer.setup.index} did not save: ${inWords(outcome)}`);
      return outcome;
    }),
  );
}

export function inWords(outcome: SaveOutcome): string {
  return outcome.type === 'failed' ? `${outcome.message} (${outcome.code})` : outcome.type;
}
