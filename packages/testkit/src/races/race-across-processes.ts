import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { fail } from '../conformance/expect.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { RaceAnswer, RaceOrder, StoreModule } from './race-messages.ts';

export interface ProcessRaceOptions {
  readonly store: StoreModule;
  readonly random: SeededRandom;
  /** Default 8. */
  readonly processCount?: number | undefined;
  /** Concurrent creates in each process. Default 4. */
  readonly committersPerProcess?: number | undefined;
  /** Default 50. */
  readonly rounds?: number | undefined;
}

export interface ProcessRaceReport {
  readonly rounds: number;
  /** Rounds won by each process. Their sum is `rounds`. */
  readonly winsByProcess: readonly number[];
}

/**
 * In each round all committers of all processes create the same key. Throws `ConformanceError`
 * unless exactly one wins, all others learn that they lost, and every process then reads the
 * winner's bytes. Deletes what the race wrote, unless it fails.
 */
export async function raceAcrossProcesses(options: ProcessRaceOptions): Promise<ProcessRaceReport> {
  const { random, processCount = 8, committersPerProcess = 4, rounds = 50 } = options;
  const prefix = `race-${random.hex(16)}/`;
  const workers = Array.from({ length: processCount }, (_, index) => new RaceWorker(index));
  try {
    await Promise.all(workers.map((worker) => worker.ask({ type: 'open', store: options.store })));
    const winsByProcess = workers.map(() => 0);
    const keys = Array.from({ length: rounds }, (_, round) => `${prefix}round-${round}`);
    for (const key of keys) {
      const winner = await raceForKey(workers, key, committersPerProcess);
      winsByProcess[winner] = (winsByProcess[winner] as number) + 1;
    }
    await Promise.all(
      workers.map((worker, index) => worker.ask({ type: 'close', keys: index === 0 ? keys : [] })),
    );
    return { rounds, winsByProcess };
  } finally {
    for (const worker of workers) worker.stop();
  }
}

/** The index of the process that won. */
async function raceForKey(workers: readonly RaceWorker[], key: string, committers: number): Promise<number> {
  const textsOf = (worker: RaceWorker) =>
    Array.from(
      { length: committers },
      (_, committer) => `process ${worker.index}, committer ${committer}, ${key}`,
    );
  const answers = await Promise.all(
    workers.map((worker) => worker.ask({ type: 'create', key, texts: textsOf(worker) })),
  );
  const winners: { index: number; text: string }[] = [];
  for (const [index, answer] of answers.entries()) {
    if (answer.type !== 'outcomes') throw new Error(`worker ${index} answered ${answer.type}`);
    for (const [committer, outcome] of answer.outcomes.entries()) {
      const text = textsOf(workers[index] as RaceWorker)[committer] as string;
      if (outcome === 'created') winners.push({ index, text });
      else if (outcome !== 'exists') fail(`a create of ${key} that did not win`, 'AlreadyExists', outcome);
    }
  }
  const [winner] = winners;
  if (winner === undefined || winners.length > 1) {
    fail(
      `creates of ${key} by ${workers.length * committers} committers`,
      'one winner',
      `${winners.length}: ${winners.map(({ text }) => text).join('; ')}`,
    );
  }
  for (const answer of await Promise.all(workers.map((worker) => worker.ask({ type: 'read', key })))) {
    const text = answer.type === 'text' ? answer.text : answer.type;
    if (text !== winner.text) fail(`the object ${key}, as each process reads it`, winner.text, text);
  }
  return winner.index;
}

/** A child process that handles one order at a time. */
class RaceWorker {
  readonly index: number;
  readonly #child: ChildProcess;
  readonly #ended: Promise<RaceAnswer>;

  constructor(index: number) {
    this.index = index;
    const isSource = import.meta.url.endsWith('.ts');
    const script = new URL(isSource ? './race-worker.ts' : './race-worker.js', import.meta.url);
    this.#child = fork(fileURLToPath(script), { execArgv: isSource ? ['--conditions=holdfast-source'] : [] });
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        resolve({ type: 'failed', message: `the process ended (${signal ?? `exit code ${code}`})` });
      });
      this.#child.on('error', (error) => resolve({ type: 'failed', message: String(error) }));
    });
  }

  /** Throws if the worker failed, or ended without an answer. */
  async ask(order: RaceOrder): Promise<RaceAnswer> {
    const answered = new Promise<RaceAnswer>((resolve) =>
      this.#child.once('message', (answer) => resolve(answer as RaceAnswer)),
    );
    this.#child.send(order);
    const answer = await Promise.race([answered, this.#ended]);
    if (answer.type === 'failed')
      throw new Error(`worker ${this.index} failed to ${order.type}: ${answer.message}`);
    return answer;
  }

  /** Safe to repeat. */
  stop(): void {
    this.#child.kill('SIGKILL');
  }
}
