/**
 * A parameter server's part in the checkpoints of its job: what ElasticDL's CheckpointSaver did in a directory, as a writer of a run.
 *
 * Each server counts its own versions and does not wait for the others. A version becomes visible when the slowest server has delivered it;
 * whoever comes last commits it. One that a server never delivers, since it was restarted meanwhile, stays unseen and is no error for anybody:
 * the next version that all deliver passes it, and collection then removes what there is of it.
 */

import {
  CheckpointError,
  type CheckpointManager,
  type CommitMeta,
  type CommitWaitOptions,
  type ConsistencyOptions,
  checkOptions,
  flag,
  type KeepBest,
  listOf,
  optional,
  plainObject,
  type RetentionPolicy,
  type Rules,
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
  /** Of this parameter server, from 0 on. A job that trains by AllReduce has one writer: 0 of 1. */
  readonly index: number;
  /** Of all parameter servers of the job. */
  readonly count: number;
  /** A checkpoint at each multiple of so many versions; 0: never. */
  readonly checkpointSteps: number;
  /**
   * The newest so many are kept; 0: all. They become the rules of the run, for all its writers, before writer 0 delivers for the first time;
   * what the others say here is not asked. The engine keeps more than that where it must: the latest, pinned ones, the one that the job
   * resumed from. Default: the run's rules stay as they are, and a new run has none and keeps all.
   */
  readonly keepCheckpointMax?: number | undefined;
  /**
   * Beside the newest, the best by metrics that were given to `save`. Wants a `keepCheckpointMax` of at least 1. Until a checkpoint has each
   * of the metrics, nothing is removed.
   */
  readonly keepBest?: readonly KeepBest[] | undefined;
  /** How long one that is not kept can be taken back, milliseconds. Default 0, as in ElasticDL: it is removed at once, but for readers. */
  readonly graceMs?: number | undefined;
  /** Default `S7`, ElasticDL's last. */
  readonly form?: WrittenForm | undefined;
  /** Default `ckpt`, as ElasticDL writes it; its design document says `chkpt`. */
  readonly extension?: ShardExtension | undefined;
  /** Another run, for what is saved to be evaluated only. It has rules of its own: what lies there takes no other checkpoint's place. */
  readonly evaluation?: CheckpointManager | undefined;
}

/** `consistency`: servers that train on save `polluted` copies; `paused`, the shard may change until `pause` has resolved, but for its sizes. */
export interface ShardSaveOptions extends CommitMeta, CommitWaitOptions, ConsistencyOptions {
  /** To the run for evaluation. */
  readonly isEvaluation?: boolean | undefined;
  /** False: wait until the checkpoint is committed. Default true: until this shard is delivered. */
  readonly noWait?: boolean | undefined;
}

/** The manager says what the others may be. */
const SAVING = { ...SIGNAL, isEvaluation: optional(flag), noWait: optional(flag) };

/** The run's rules say what `keepBest` and `graceMs` may be, once they are set. */
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
  readonly #manager: CheckpointManager;
  readonly #options: CheckpointSaverOptions;
  readonly #writer: WriterPosition;
  readonly #name: string;
  /** `undefined`: the run's stay as they are. */
  readonly #rules: RetentionPolicy | null | undefined;
  readonly #turns = new Turns();
  readonly #evaluationTurns = new Turns();
  #hasRules = false;

  /** The managers stay the caller's to close. Nothing is asked of a store. `InvalidArgument` names the option that cannot be. */
  constructor(manager: CheckpointManager, options: CheckpointSaverOptions) {
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

  /** At multiples of `checkpointSteps`. As in ElasticDL 0 is one: who asks after each update never asks about it. */
  needToCheckpoint(version: number): boolean {
    return this.isEnabled && version % this.#options.checkpointSteps === 0;
  }

  /**
   * Delivers this server's shard of a version, whether or not `needToCheckpoint` asks for it. Saves of one saver are made one after the other,
   * in the order of the calls, which is to be that of the versions.
   *
   * A shard is read while it is sent, and not copied: until this settles nothing may change it. A server that trains meanwhile saves a copy
   * (`structuredClone` makes one). A function is called before `save` returns, once.
   *
   * `metrics`: of this server or of the whole model; those of all servers are united, and the lowest server wins a clash.
   * `isCommitted` is true for whoever came last. Errors: as of the manager's `save`; `Conflict` if a version from this one on has been committed
   * already, as when a job begins again from an old checkpoint without a rollback. A server that was restarted calls the manager's `join`
   * before it restores: what its former life had delivered, nobody commits from then on. `InvalidArgument`: the shard is of another version
   * or cannot be written in this form; there is no run for evaluation.
   */
  async save(
    version: number,
    shard: ModelShard | (() => ModelShard),
    options: ShardSaveOptions = {},
  ): Promise<SaveResult> {
    wholeNumber(0)('version', version);
    checkOptions<Pick<ShardSaveOptions, 'isEvaluation' | 'noWait' | 'signal'>>(options, SAVING);
    const { isEvaluation = false, noWait = true, ...passed } = options;
    const { signal } = options;
    const { evaluation } = this.#options;
    if (isEvaluation && evaluation === undefined) {
      throw refusal('this saver was given no run for evaluation: set its option `evaluation`');
    }
    const encoded = this.#encoded(version, typeof shard === 'function' ? shard() : shard);
    const call = {
      ...passed,
      version,
      noWait,
      writer: this.#writer,
      files: { [this.#name]: encoded },
      // Its version alone makes a shard differ from the last one, and tables grow as training meets new ids: neither tells anything.
      onStale: 'off' as const,
    };
    if (isEvaluation) {
      return this.#evaluationTurns.take(() => (evaluation as CheckpointManager).save(call), signal);
    }
    return this.#turns.take(async () => {
      await this.#setRules(signal);
      return this.#manager.save(call);
    }, signal);
  }

  /** Read from the beginning each time it is iterated. */
  #encoded(version: number, shard: ModelShard): AsyncIterable<Uint8Array> {
    plainObject('the shard', shard);
    if (shard.version !== version) {
      throw refusal(`version ${version} is to be saved, but the shard's own version is ${shard.version}`);
    }
    const file = encodeShard(shard, this.#options.form);
    return {
      async *[Symbol.asyncIterator]() {
        yield* file.chunks();
      },
    };
  }

  /** Once is enough: what is set later, by whomever, is a newer word. */
  async #setRules(signal: AbortSignal | undefined): Promise<void> {
    if (this.#hasRules || this.#rules === undefined || this.#writer.index !== 0) return;
    // Joining makes the run, where there is none yet to have rules.
    await this.#manager.join({ writer: this.#writer, signal });
    await this.#manager.setRetention(this.#rules, { signal });
    this.#hasRules = true;
  }
}

function rulesOf(options: CheckpointSaverOptions): RetentionPolicy | null | undefined {
  const { keepCheckpointMax, keepBest = [], graceMs = 0 } = options;
  if (keepBest.length > 0 && !keepCheckpointMax) {
    throw refusal('keepBest wants a keepCheckpointMax of at least 1: without it all are kept');
  }
  if (keepCheckpointMax === undefined) return undefined;
  return keepCheckpointMax === 0 ? null : { keepLast: keepCheckpointMax, keepBest, graceMs };
}

function refusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
