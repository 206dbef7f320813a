/**
 * A parameter server's part in the checkpoints of its job. It does what ElasticDL's CheckpointSaver
 * did in a directory, but as a writer of a run.
 *
 * Each server counts its own versions and does not wait for the others. A version becomes visible
 * when all servers have delivered it; the last one commits it. A server that restarts may never
 * deliver a version. That version then stays invisible, without an error for any server. The next
 * version that all deliver supersedes it, and collection removes what was uploaded of it.
 */

import {
  CheckpointError,
  type CommitMeta,
  type CommitWaitOptions,
  type ConsistencyOptions,
  checkOptions,
  checkSome,
  flag,
  type KeepBest,
  listOf,
  optional,
  plainObject,
  type RetentionPolicy,
  type Rules,
  type RunManager,
  type SaveResult,
  SPAN_MS_MAX,
  WORLD_SIZE_MAX,
  type WriterPosition,
  wholeNumber,
} from '@holdfast/core/contract';
import { encodeShard } from '../codec/encode.ts';
import type { WrittenForm } from '../layout.ts';
import type { ModelShard } from '../model.ts';
import { type ShardExtension, shardFile } from '../open/names.ts';
import { aForm, aManager, anExtension, SIGNAL } from '../rules.ts';
import { Turns } from './turns.ts';

export interface CheckpointSaverOptions {
  /**
   * Index of this parameter server, from 0. A job that trains by AllReduce has one writer: 0 of 1.
   */
  readonly index: number;
  /** Number of parameter servers of the job. */
  readonly count: number;
  /** Makes a checkpoint at each multiple of this many versions; 0: never. */
  readonly checkpointSteps: number;
  /**
   * Keeps this many newest checkpoints; 0 keeps all. Sets the retention rules of the run, for all
   * its writers, before writer 0 delivers for the first time; the values of other writers are
   * ignored. The engine keeps more if it must: the latest, pinned ones, the one that the job
   * resumed from. Default: the run's rules stay unchanged, and a new run has none and keeps all.
   */
  readonly keepCheckpointMax?: number | undefined;
  /**
   * Also keeps the best by metrics that were passed to `save`. Requires a `keepCheckpointMax` of at
   * least 1. Nothing is removed until a checkpoint has each of the metrics.
   */
  readonly keepBest?: readonly KeepBest[] | undefined;
  /**
   * How long a checkpoint that is not kept can be restored, in milliseconds. Default 0, as in
   * ElasticDL: it is removed at once unless it has readers.
   */
  readonly graceMs?: number | undefined;
  /** Default `S7`, ElasticDL's last form. */
  readonly form?: WrittenForm | undefined;
  /** Default `ckpt`, as ElasticDL writes it; its design document says `chkpt`. */
  readonly extension?: ShardExtension | undefined;
  /**
   * Another run for checkpoints that are only evaluated. It has its own retention rules, so it
   * never displaces another checkpoint.
   */
  readonly evaluation?: RunManager | undefined;
}

/**
 * `consistency`: servers that continue to train save `polluted` copies. With `paused`, the shard
 * may change until `pause` has resolved, except for its sizes.
 */
export interface ShardSaveOptions extends CommitMeta, CommitWaitOptions, ConsistencyOptions {
  /** Saves to the run for evaluation. */
  readonly isEvaluation?: boolean | undefined;
  /**
   * False: waits until the checkpoint is committed. Default true: waits until this shard is
   * delivered.
   */
  readonly noWait?: boolean | undefined;
}

/** The manager checks the other options. */
const SAVING = { ...SIGNAL, isEvaluation: optional(flag), noWait: optional(flag) };

/** The run's rules check `keepBest` and `graceMs` when they are set. */
const OPTIONS: Rules<CheckpointSaverOptions> = {
  index: wholeNumber(0, WORLD_SIZE_MAX - 1),
  count: wholeNumber(1, WORLD_SIZE_MAX),
  checkpointSteps: wholeNumber(0),
  keepCheckpointMax: optional(wholeNumber(0)),
  keepBest: optional(listOf(plainObject)),
  graceMs: optional(wholeNumber(0, SPAN_MS_MAX)),
  form: optional(aForm),
  extension: optional(anExtension),
  evaluation: optional(aManager),
};

export class CheckpointSaver {
  readonly #manager: RunManager;
  readonly #options: CheckpointSaverOptions;
  readonly #writer: WriterPosition;
  readonly #name: string;
  /** `undefined`: the run's rules stay unchanged. */
  readonly #rules: RetentionPolicy | null | undefined;
  readonly #turns = new Turns();
  readonly #evaluationTurns = new Turns();
  #hasRules = false;

  /**
   * Sends no request. The caller keeps the managers and closes them. `InvalidArgument` names the
   * wrong option.
   */
  constructor(manager: RunManager, options: CheckpointSaverOptions) {
    aManager('manager', manager);
    checkOptions(options, OPTIONS);
    const { index, count, extension = 'ckpt' } = options;
    wholeNumber(0, count - 1)('index', index);
    this.#manager = manager;
    this.#options = options;
    this.#writer = { index, count };
    this.#name = shardFile(index, count, extension);
    this.#rules = rulesOf(options);
  }

  get isEnabled(): boolean {
    return this.#options.checkpointSteps > 0;
  }

  /**
   * True at multiples of `checkpointSteps`. As in ElasticDL 0 is one, but a caller that asks after
   * each update never asks about 0.
   */
  needToCheckpoint(version: number): boolean {
    return this.isEnabled && version % this.#options.checkpointSteps === 0;
  }

  /**
   * Delivers this server's shard of a version, whatever `needToCheckpoint` says. One saver makes
   * its saves one after the other, in the order of the calls. Call it in the order of the versions.
   *
   * The shard is read while it is sent, and not copied: it must not change until this settles. A
   * server that trains meanwhile must save a copy (for example by `structuredClone`). A function is
   * called once, before `save` returns.
   *
   * `metrics`: of this server or of the whole model. Those of all servers are merged; if two
   * differ, the lowest server wins. `isCommitted` is true for the server that delivers last.
   *
   * Errors are those of the manager's `save`. `Conflict`: this version or a later one is already
   * committed, for example when a job starts again from an old checkpoint without a rollback.
   * `InvalidArgument`: the shard is of another version or cannot be written in this form, or there
   * is no run for evaluation.
   *
   * A server that was restarted must call the manager's `join` before it restores. What its former
   * life had delivered is then never committed.
   */
  async save(
    version: number,
    shard: ModelShard | (() => ModelShard),
    options: ShardSaveOptions = {},
  ): Promise<SaveResult> {
    wholeNumber(0)('version', version);
    checkSome<Pick<ShardSaveOptions, 'isEvaluation' | 'noWait' | 'signal'>>(options, SAVING);
    const { isEvaluation = false, noWait = true, ...passed } = options;
    const { signal } = options;
    const { evaluation } = this.#options;
    if (isEvaluation && evaluation === undefined) {
      throw refusal('this saver has no run for evaluation: set its option `evaluation`');
    }
    const encoded = this.#encoded(version, typeof shard === 'function' ? shard() : shard);
    const call = {
      ...passed,
      version,
      noWait,
      writer: this.#writer,
      files: { [this.#name]: encoded },
      // Stale checks are off: every shard differs by its version and new ids, so a check would find
      // nothing.
      onStale: 'off' as const,
    };
    if (isEvaluation) {
      return this.#evaluationTurns.take(() => (evaluation as RunManager).save(call), signal);
    }
    return this.#turns.take(async () => {
      await this.#setRules(signal);
      return this.#manager.save(call);
    }, signal);
  }

  /** Yields the file from its start on each iteration. */
  #encoded(version: number, shard: ModelShard): AsyncIterable<Uint8Array> {
    plainObject('the shard', shard);
    if (shard.version !== version) {
      throw refusal(`version ${version} cannot be saved: the shard's own version is ${shard.version}`);
    }
    const file = encodeShard(shard, this.#options.form);
    return {
      async *[Symbol.asyncIterator]() {
        yield* file.chunks();
      },
    };
  }

  /** Sets the rules once per saver: later changes, by any caller, are newer decisions and stay. */
  async #setRules(signal: AbortSignal | undefined): Promise<void> {
    if (this.#hasRules || this.#rules === undefined || this.#writer.index !== 0) return;
    // `join` creates the run if it does not exist yet, so that it can have rules.
    await this.#manager.join({ writer: this.#writer, signal });
    await this.#manager.admin.setRetention(this.#rules, { signal });
    this.#hasRules = true;
  }
}

function rulesOf(options: CheckpointSaverOptions): RetentionPolicy | null | undefined {
  const { keepCheckpointMax, keepBest = [], graceMs = 0 } = options;
  if (keepBest.length > 0 && !keepCheckpointMax) {
    throw refusal('keepBest needs a keepCheckpointMax of at least 1: without it all are kept');
  }
  if (keepCheckpointMax === undefined) return undefined;
  return keepCheckpointMax === 0 ? null : { keepLast: keepCheckpointMax, keepBest, graceMs };
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
