/**
 * The files of a checkpoint that is written by streams: which are open, which are complete, and
 * which failed. A failed file must not be left out of a commit silently.
 */

import { whenDropped } from '../../contract/dropped.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { checkLogicalName } from '../../format/index.ts';
import { planStream } from '../../plan/parts.ts';
import type { UploadedFile } from '../../transfer/index.ts';
import { waitAtMost } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';
import { Handoff } from './handoff.ts';
import type { SaveSession } from './session.ts';
import { checkFileCount } from './sources.ts';

/** A stream's `abort` waits at most this long for its upload to end. A slower upload ends later. */
const END_TIMEOUT_MS = 800;

export class OutputFiles {
  readonly #run: RunContext;
  readonly #session: Pick<SaveSession, 'upload'>;
  /** In the order in which they were opened. */
  readonly #open = new Set<Output>();
  /** By name. If several streams wrote one file, the last one to close successfully counts. */
  readonly #whole = new Map<string, UploadedFile>();
  /**
   * By name: the highest `number` among the streams that wrote the file and closed successfully.
   */
  readonly #lastWhole = new Map<string, number>();
  /**
   * By name: the failed stream with the highest `number`. Removed when a stream with a higher
   * number closes successfully, because that stream wrote the file again.
   */
  readonly #failed = new Map<string, Output>();
  #count = 0;

  constructor(run: RunContext, session: Pick<SaveSession, 'upload'>) {
    this.#run = run;
    this.#session = session;
  }

  open(name: string): WritableStream<Uint8Array> {
    checkLogicalName(name);
    checkFileCount(this.#whole.size + this.#open.size + 1);
    const { settings, store, openOutputs } = this.#run;
    // One is left for saves that read a stream: they would wait for as long as these stay open.
    const openMax = Math.max(1, planStream(settings, store.capabilities).streamCountMax - 1);
    if (openOutputs.size >= openMax) {
      throw new CheckpointError(
        'InvalidArgument',
        `${openMax} output streams of this manager are open already: close one first, or raise bufferBytes`,
      );
    }
    const output = new Output(name, this.#count++, this.#session, () => this.#onFailed(output));
    this.#open.add(output);
    openOutputs.add(output);
    const over = output.uploaded
      .then(
        (file) => this.#onWhole(output, file),
        () => undefined, // `onFailed` has recorded the failure
      )
      .finally(() => {
        this.#open.delete(output);
        openOutputs.delete(output);
      });
    const stream = streamInto(output, over, () => waitAtMost(this.#run.clock, END_TIMEOUT_MS, over));
    const forget = whenDropped(stream, () =>
      output.fail(new CheckpointError('Aborted', 'the output stream was dropped before it was closed')),
    );
    void over.then(forget);
    return stream;
  }

  /**
   * The files to commit. `InvalidArgument`: a stream is open, a file failed, or there are no files.
   */
  whole(): UploadedFile[] {
    const open = [...this.#open].filter(({ failure }) => failure === undefined);
    if (open.length > 0) {
      const names = open.map(({ name }) => name).join(', ');
      throw new CheckpointError('InvalidArgument', `an output stream is still open: ${names}`);
    }
    if (this.#failed.size > 0) throw notWhole([...this.#failed.values()]);
    if (this.#whole.size === 0) throw new CheckpointError('InvalidArgument', 'there is no file to commit');
    return [...this.#whole.values()];
  }

  failAll(why: CheckpointError): void {
    for (const output of this.#open) output.fail(why);
  }

  #onWhole(output: Output, file: UploadedFile): void {
    const { name, number } = output;
    this.#whole.set(name, file);
    this.#lastWhole.set(name, Math.max(number, this.#lastWhole.get(name) ?? 0));
    if ((this.#failed.get(name)?.number ?? number) < number) this.#failed.delete(name);
  }

  #onFailed(output: Output): void {
    const { name, number } = output;
    const lastKnown = Math.max(this.#lastWhole.get(name) ?? -1, this.#failed.get(name)?.number ?? -1);
    if (lastKnown < number) this.#failed.set(name, output);
  }
}

interface Failure {
  readonly reason: unknown;
}

/**
 * One stream into a file. It holds no reference to the stream object. So a stream that the caller
 * drops before closing it can be collected, and its file then fails.
 */
class Output {
  readonly name: string;
  /** Counts streams in the order in which they are opened. */
  readonly number: number;
  readonly handoff = new Handoff();
  readonly uploaded: Promise<UploadedFile>;
  readonly #onFailed: () => void;
  readonly #stop = new AbortController();
  #failure: Failure | undefined;

  constructor(name: string, number: number, session: Pick<SaveSession, 'upload'>, onFailed: () => void) {
    this.name = name;
    this.number = number;
    this.#onFailed = onFailed;
    const source = { name, sizeBytes: 0, source: { stream: this.handoff } };
    this.uploaded = session.upload([source], { signal: this.#stop.signal, endsFast: true }).then(
      ([file]) => file as UploadedFile,
      (error: unknown) => {
        throw this.fail(error).reason;
      },
    );
  }

  get failure(): Failure | undefined {
    return this.#failure;
  }

  /** Ends the upload: the file is incomplete. The first reason counts. */
  fail(reason: unknown): Failure {
    if (this.#failure) return this.#failure;
    const failure = { reason };
    this.#failure = failure;
    this.#stop.abort(
      new CheckpointError('Aborted', `the output stream of "${this.name}" failed`, { cause: reason }),
    );
    this.handoff.fail(reason);
    this.#onFailed();
    return failure;
  }
}

function streamInto(
  output: Output,
  over: Promise<void>,
  waitForEnd: () => Promise<void>,
): WritableStream<Uint8Array> {
  const failed = (reason: unknown) =>
    output.fail(reason ?? new CheckpointError('Aborted', 'the output stream was aborted'));
  return new WritableStream<Uint8Array>({
    // The signal of the controller fires as soon as the stream is aborted. The sink's `abort` is
    // called only after a pending write, which may wait for the store.
    start: (controller) => {
      const { signal } = controller as WritableStreamDefaultController & { readonly signal: AbortSignal };
      signal.addEventListener('abort', () => failed(signal.reason), { once: true });
    },
    write: (chunk) => output.handoff.push(chunk),
    close: async () => {
      output.handoff.end();
      await output.uploaded;
      await over;
    },
    abort: async (reason) => {
      failed(reason);
      await waitForEnd();
    },
  });
}

function notWhole(outputs: readonly Output[]): CheckpointError {
  const files = outputs.map(({ name, failure }) => `"${name}" (${reasonText(failure?.reason)})`);
  const message = `not completely written: ${files.join(', ')}; write it again, or discard this checkpoint`;
  return new CheckpointError('InvalidArgument', message, { context: { name: outputs[0]?.name ?? '' } });
}

function reasonText(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
