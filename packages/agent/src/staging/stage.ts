/**
 * The staging directory: one directory for each writer, in which its trainer makes segments. Beside
 * them the agent writes what a restarted agent needs: `writer.json`, and a record for each sealed
 * save.
 */

import { constants } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import {
  CheckpointError,
  type CheckpointId,
  jsonReady,
  systemRandom,
  toCheckpointError,
} from '@holdfast/core/contract';
import {
  DirectFile,
  errnoOf,
  type FileSystem,
  fileError,
  linuxProcesses,
  type Processes,
  processOfText,
} from '@holdfast/local-files';
import * as z from 'zod';
import { joinRequest, type SaveRequest, type StageView, saveRequest } from '../api/shapes.ts';
import { HeldDirectory, type WorkInside } from './held-directory.ts';
import { assertPrivateDirectory } from './private-directory.ts';

const sealRecord = z.strictObject({
  format: z.literal(1),
  save: saveRequest,
  /** The store has all its bytes: the sources are needed no more. */
  isDelivered: z.boolean(),
  /**
   * The times of the trainer's own files show every change since it named them. Absent: the agent
   * that wrote the record made no difference.
   */
  isSettled: z.boolean().default(true),
  /** Hash of the request that began it, and of the one that sealed it if that was another one. */
  begunWith: z.string(),
  sealedWith: z.string().optional(),
  /** Earlier saves of the writer that were in progress and have no record. */
  after: z.array(z.string()).optional(),
  /** Its end. The record has no files any more. */
  committed: z
    .strictObject({
      id: z.strictObject({ lineage: z.int(), epoch: z.int(), version: z.string() }),
      sizeBytes: z.int(),
      referencedBytes: z.int(),
    })
    .optional(),
});
const bootRecord = z.strictObject({ id: z.string(), host: z.string() });
const writerRecord = z.strictObject({
  format: z.literal(1),
  join: joinRequest,
  /** The machine's start since which the directory is in use. Absent: it is not known. */
  boot: bootRecord.optional(),
  /** The run that the trainer has joined: an alias may name another one later. */
  place: z.string().optional(),
});

/** How a save was committed. */
export interface SaveCommit {
  readonly id: CheckpointId;
  readonly sizeBytes: number;
  readonly referencedBytes: number;
}

export interface SealRecord extends SaveRequest {
  readonly isDelivered: boolean;
  readonly isSettled: boolean;
  readonly begunWith: string;
  readonly sealedWith?: string | undefined;
  readonly after?: readonly string[] | undefined;
  readonly committed?: SaveCommit | undefined;
}
export type WriterRecord = z.infer<typeof writerRecord>['join'];
type Boot = z.infer<typeof bootRecord>;

/** A writer's directory that an earlier agent left. */
export interface LeftStage {
  readonly writerId: string;
  readonly join: WriterRecord;
  /** First those that are committed, each group by version. */
  readonly seals: readonly SealRecord[];
  /**
   * Saves that were sealed before the machine started anew. Their bytes were in memory or on the
   * way to the disk, so nothing says that they are whole.
   */
  readonly lost: readonly SealRecord[];
  /** The trainer's process has certainly ended. */
  readonly isGone: boolean;
}

/** What `Stage.left` finds. */
export interface Left {
  readonly writers: readonly LeftStage[];
  /** Directories with records of another version of the agent, or of another machine. They stay. */
  readonly strangers: readonly string[];
}

/** Records, also those that were not renamed yet, and segments. */
const OWN_NAMES = /^((writer|seal-[0-9a-f]{32})\.json(\.[0-9a-f]+)?|segment-[0-9a-f]+)$/;

/** Records of other versions have another number, or other fields. */
class OtherAgent extends Error {}

export class Stage {
  /** Without links. */
  readonly directory: string;
  readonly #processes: Processes;
  #held: HeldDirectory | undefined;
  #holding: Promise<HeldDirectory> | undefined;
  #isClosed = false;

  private constructor(directory: string, processes: Processes) {
    this.directory = directory;
    this.#processes = processes;
  }

  /**
   * Makes the directory if it does not exist, and locks it until `close`. `Denied`: it belongs to
   * another user, others may enter it, or it is a link. `AlreadyExists`: another agent uses it.
   */
  static async open(directory: string, processes: Processes = linuxProcesses()): Promise<Stage> {
    await makeDirectory(directory);
    await assertPrivateDirectory(directory);
    const stage = new Stage(await realpath(directory), processes);
    await stage.keep();
    return stage;
  }

  /**
   * Makes and locks the directory again if another program has removed it or its lock. Then it has
   * no writer's directory. Errors as those of `open`; nothing is staged then.
   */
  async keep(): Promise<void> {
    await this.#hold();
  }

  /** The next agent may use the directory. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#holding?.catch(() => undefined);
    await this.#held?.close();
  }

  pathOf(writerId: string): string {
    return `${this.directory}/${writerId}`;
  }

  /** Its kind is `none` if nothing can be staged in the directory. Then `reason` says why. */
  async view(writerId?: string): Promise<StageView> {
    const directory = writerId === undefined ? this.directory : this.pathOf(writerId);
    try {
      const held = await this.#hold();
      const { bavail, bsize } = await held.use((root, { statfs }) => statfs(root));
      const lies = held.isInMemory ? 'lies in memory' : 'lies on a disk: saves are staged at its speed';
      const kind = held.isInMemory ? 'tmpfs' : 'disk';
      const freeBytes = Number(bavail * bsize);
      return { directory, kind, reason: `${this.directory} ${lies}`, freeBytes };
    } catch (error) {
      const reason = `the agent does not use it: ${toCheckpointError(error).message}`;
      return { directory, kind: 'none', reason, freeBytes: 0 };
    }
  }

  /**
   * The path that `work` gets leads to the writer's directory until it resolves, whatever has its
   * name. `NotFound`: the directory was removed, or nothing can be staged.
   */
  async within<Result>(writerId: string, work: WorkInside<Result>): Promise<Result> {
    const held = await this.#hold().catch((error: unknown) => {
      const path = this.pathOf(writerId);
      const message = `${path} is gone: ${toCheckpointError(error).message}`;
      throw new CheckpointError('NotFound', message, { context: { path } });
    });
    return held.use(async (root, fileSystem) => {
      const path = `${root}/${writerId}`;
      await fileSystem.lstat(path).catch((error: unknown) => {
        throw fileError(error, `look at ${this.pathOf(writerId)}`, { path: this.pathOf(writerId) });
      });
      return work(path, fileSystem);
    });
  }

  /** `StorageFull`: there is no room for it. Other errors are those of `keep`. */
  async prepare(writerId: string, join: WriterRecord, place: string): Promise<void> {
    await this.#use((root) => makeDirectory(`${root}/${writerId}`, this.pathOf(writerId)));
    const boot = (await this.#boot()) ?? undefined;
    await this.#write(writerId, 'writer.json', { format: 1, join, boot, place });
  }

  /** The run that a writer of this id has joined before. `undefined`: it is not known. */
  async placeOf(writerId: string): Promise<string | undefined> {
    const held = await this.#hold().catch(() => undefined);
    const read = (root: string) => readRecord(`${root}/${writerId}/writer.json`, writerRecord);
    return (await held?.use(read))?.place;
  }

  /** False after another program has removed its directory. */
  async isThere(writerId: string): Promise<boolean> {
    const look = this.#use((root, { lstat }) => lstat(`${root}/${writerId}/writer.json`));
    return look.then(
      () => true,
      () => false,
    );
  }

  /** From now on a restarted agent finishes the save. */
  async seal(writerId: string, record: SealRecord): Promise<void> {
    const { isDelivered, isSettled, begunWith, sealedWith, after, committed, ...save } = record;
    const facts = { isDelivered, isSettled, begunWith, sealedWith, after, committed };
    const content = { format: 1, save, ...facts };
    await this.#write(writerId, sealName(save.saveId), jsonReady(content));
  }

  async unseal(writerId: string, saveId: string): Promise<void> {
    await this.#use(async (root, { unlink }) => {
      await unlink(`${root}/${writerId}/${sealName(saveId)}`).catch((error: unknown) => {
        if (errnoOf(error) !== 'ENOENT') throw error;
      });
    });
  }

  /** With all segments in it. */
  async remove(writerId: string): Promise<void> {
    await this.#use((root) => rm(`${root}/${writerId}`, { recursive: true, force: true }));
  }

  /**
   * What earlier agents left. Removes a directory that an agent had only begun when it was killed.
   * Call it while no trainer can join.
   */
  async left(): Promise<Left> {
    const writers: LeftStage[] = [];
    const strangers: string[] = [];
    for (const entry of await this.#use((root) => readdir(root, { withFileTypes: true }))) {
      if (!entry.isDirectory() || !/^[0-9a-f]{32}$/.test(entry.name)) continue;
      try {
        const read = await this.#read(entry.name);
        if (read) writers.push(read);
        else if (await this.#isOwn(entry.name)) await this.remove(entry.name);
      } catch (error) {
        if (!(error instanceof OtherAgent)) throw error;
        strangers.push(entry.name);
      }
    }
    return { writers, strangers };
  }

  /** Whether the trainer's process has certainly ended; `null`: it did not name itself. */
  async isCertainlyGone({ process: text = '' }: WriterRecord): Promise<boolean | null> {
    const identity = processOfText(text);
    return identity && this.#processes.isCertainlyGone(identity);
  }

  /** Another program may give its directories such names too. */
  async #isOwn(writerId: string): Promise<boolean> {
    const list = (path: string) => readdir(path, { withFileTypes: true });
    const entries = await this.within(writerId, list);
    return entries.every((entry) => entry.isFile() && OWN_NAMES.test(entry.name));
  }

  /** `null`: it has no record of its writer, so no trainer has put anything into it. */
  #read(writerId: string): Promise<LeftStage | null> {
    return this.within(writerId, (directory) => this.#readIn(directory, writerId));
  }

  async #readIn(directory: string, writerId: string): Promise<LeftStage | null> {
    const record = await readRecord(`${directory}/writer.json`, writerRecord);
    if (record === null) return null;
    const { join, boot } = record;
    const hasRestarted = await this.#hasRestartedSince(boot);
    const seals: SealRecord[] = [];
    const lost: SealRecord[] = [];
    for (const name of await readdir(directory)) {
      if (!name.startsWith('seal-') || !name.endsWith('.json')) continue;
      const seal = await readRecord(`${directory}/${name}`, sealRecord);
      if (seal === null) continue;
      const { format: _, save, committed: end, ...rest } = seal;
      const isLost = hasRestarted && !rest.isDelivered;
      const committed = end && { ...end, id: { ...end.id, version: BigInt(end.id.version) } };
      (isLost ? lost : seals).push({ ...save, ...rest, committed });
    }
    const ended = seals.filter(({ committed }) => committed !== undefined).sort(byVersion);
    const open = seals.filter(({ committed }) => committed === undefined).sort(byVersion);
    const isGone = hasRestarted || ((await this.isCertainlyGone(join)) ?? false);
    return { writerId, join, seals: [...ended, ...open], lost, isGone };
  }

  /** `OtherAgent`: it was another machine. */
  async #hasRestartedSince(boot: Boot | undefined): Promise<boolean> {
    const now = await this.#boot();
    if (boot === undefined || now === null || boot.id === now.id) return false;
    if (boot.host !== now.host) throw new OtherAgent(boot.host);
    return true;
  }

  /** `null`: the machine does not tell. */
  async #boot(): Promise<Boot | null> {
    const self = await this.#processes.self();
    return self && { id: self.bootId, host: hostname() };
  }

  async #use<Result>(work: WorkInside<Result>): Promise<Result> {
    return (await this.#hold()).use(work);
  }

  /** Checks the directory before each use. Calls at the same time share the look. */
  #hold(): Promise<HeldDirectory> {
    this.#holding ??= this.#look().finally(() => {
      this.#holding = undefined;
    });
    return this.#holding;
  }

  async #look(): Promise<HeldDirectory> {
    if (this.#isClosed) throw new CheckpointError('Unavailable', 'the agent stops');
    const before = this.#held;
    if (await before?.isAt(this.directory)) return before as HeldDirectory;
    this.#held = undefined;
    await before?.close();
    await makeDirectory(this.directory);
    this.#held = await HeldDirectory.open(this.directory);
    return this.#held;
  }

  /** It appears whole: a crash leaves a temporary name, which is not read. */
  #write(writerId: string, name: string, record: unknown): Promise<void> {
    return this.#use(async (root, fileSystem) => {
      const path = `${root}/${writerId}/${name}`;
      // A name for each call: one writer may join twice at once.
      const temporary = `${path}.${systemRandom.hex(8)}`;
      try {
        await writeFile(temporary, JSON.stringify(record), fileSystem);
        await fileSystem.rename(temporary, path);
      } catch (error) {
        await fileSystem.unlink(temporary).catch(() => undefined);
        const shown = `${this.pathOf(writerId)}/${name}`;
        throw fileError(error, `write ${shown}`, { path: shown });
      }
    });
  }
}

async function writeFile(path: string, content: string, fileSystem: FileSystem): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const file = await DirectFile.open(path, flags, { direct: false, mode: 0o600, fileSystem });
  try {
    await file.write(0, Buffer.from(content));
  } finally {
    await file.close();
  }
}

async function makeDirectory(directory: string, shown = directory): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, `make ${shown}`, { path: shown });
  }
}

/** `null`: there is none, or a loss of power has left a piece of one. `OtherAgent`: see there. */
async function readRecord<Shape extends z.ZodType>(
  path: string,
  shape: Shape,
): Promise<z.infer<Shape> | null> {
  try {
    const parsed = shape.safeParse(JSON.parse(await readFile(path, 'utf8')));
    if (parsed.success) return parsed.data;
    throw new OtherAgent(path);
  } catch (error) {
    if (error instanceof SyntaxError || errnoOf(error) === 'ENOENT') return null;
    throw error;
  }
}

function byVersion(a: SealRecord, b: SealRecord): number {
  return BigInt(a.version) < BigInt(b.version) ? -1 : 1;
}

function sealName(saveId: string): string {
  return `seal-${saveId}.json`;
}
