/**
 * The staging directory: one directory for each writer, in which its trainer makes segments. Beside
 * them the agent writes what a restarted agent needs: `writer.json`, and a record for each sealed
 * save.
 */

import { lstat, mkdir, readdir, readFile, realpath, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import process from 'node:process';
import { CheckpointError, type CheckpointId, jsonReady, systemRandom } from '@holdfast/core/contract';
import { errnoOf, fileError, linuxProcesses, type Processes, processOfText } from '@holdfast/local-files';
import * as z from 'zod';
import { joinRequest, type SaveRequest, type StageView, saveRequest } from '../api/shapes.ts';

const TMPFS = 0x01021994n;
const RAMFS = 0x858458f6n;

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

  private constructor(directory: string, processes: Processes) {
    this.directory = directory;
    this.#processes = processes;
  }

  /**
   * Makes the directory if it does not exist. `Denied`: it belongs to another user, others may
   * enter it, or it is a link.
   */
  static async open(directory: string, processes: Processes = linuxProcesses()): Promise<Stage> {
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw fileError(error, `make ${directory}`, { path: directory });
    }
    await assertPrivateDirectory(directory);
    return new Stage(await realpath(directory), processes);
  }

  pathOf(writerId: string): string {
    return `${this.directory}/${writerId}`;
  }

  async view(writerId?: string): Promise<StageView> {
    const { type, bavail, bsize } = await this.#fileSystem();
    const isMemory = type === TMPFS || type === RAMFS;
    return {
      directory: writerId === undefined ? this.directory : this.pathOf(writerId),
      kind: isMemory ? 'tmpfs' : 'disk',
      reason: isMemory
        ? `${this.directory} lies in memory`
        : `${this.directory} lies on a disk: saves are staged at its speed`,
      freeBytes: Number(bavail * bsize),
    };
  }

  /** `StorageFull`: there is no room for it. */
  async prepare(writerId: string, join: WriterRecord, place: string): Promise<void> {
    await this.#make(this.pathOf(writerId));
    const boot = (await this.#boot()) ?? undefined;
    await this.#write(writerId, 'writer.json', { format: 1, join, boot, place });
  }

  /** The run that a writer of this id has joined before. `undefined`: it is not known. */
  async placeOf(writerId: string): Promise<string | undefined> {
    const record = await readRecord(`${this.pathOf(writerId)}/writer.json`, writerRecord);
    return record?.place;
  }

  /** False after another program has removed its directory. */
  async isThere(writerId: string): Promise<boolean> {
    const stats = await lstat(`${this.pathOf(writerId)}/writer.json`).catch(() => null);
    return stats !== null;
  }

  /** From now on a restarted agent finishes the save. */
  async seal(writerId: string, record: SealRecord): Promise<void> {
    const { isDelivered, isSettled, begunWith, sealedWith, after, committed, ...save } = record;
    const facts = { isDelivered, isSettled, begunWith, sealedWith, after, committed };
    const content = { format: 1, save, ...facts };
    await this.#write(writerId, sealName(save.saveId), jsonReady(content));
  }

  async unseal(writerId: string, saveId: string): Promise<void> {
    await rm(`${this.pathOf(writerId)}/${sealName(saveId)}`, { force: true });
  }

  /** With all segments in it. */
  async remove(writerId: string): Promise<void> {
    await rm(this.pathOf(writerId), { recursive: true, force: true });
  }

  /**
   * What earlier agents left. Removes a directory that an agent had only begun when it was killed.
   * Call it while no trainer can join.
   */
  async left(): Promise<Left> {
    const writers: LeftStage[] = [];
    const strangers: string[] = [];
    for (const entry of await readdir(this.directory, { withFileTypes: true })) {
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
    const entries = await readdir(this.pathOf(writerId), { withFileTypes: true });
    return entries.every((entry) => entry.isFile() && OWN_NAMES.test(entry.name));
  }

  /** `null`: it has no record of its writer, so no trainer has put anything into it. */
  async #read(writerId: string): Promise<LeftStage | null> {
    const directory = this.pathOf(writerId);
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

  /** Another program may have removed the directory, such as one that tidies up. */
  async #fileSystem() {
    const ask = () => statfs(this.directory, { bigint: true });
    try {
      return await ask();
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
      await this.#make(this.directory);
      return ask();
    }
  }

  async #make(directory: string): Promise<void> {
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw fileError(error, `make ${directory}`, { path: directory });
    }
  }

  /** It appears whole: a crash leaves a temporary name, which is not read. */
  async #write(writerId: string, name: string, record: unknown): Promise<void> {
    const path = `${this.pathOf(writerId)}/${name}`;
    // A name for each call: one writer may join twice at once.
    const temporary = `${path}.${systemRandom.hex(8)}`;
    try {
      await writeFile(temporary, JSON.stringify(record), { mode: 0o600 });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw fileError(error, `write ${path}`, { path });
    }
  }
}

/**
 * `Denied`: the path is a link or no directory, belongs to another user, or others may enter it.
 */
export async function assertPrivateDirectory(path: string): Promise<void> {
  const stats = await lstat(path);
  if (!stats.isDirectory())
    throw denied(path, stats.isSymbolicLink() ? 'is a symbolic link' : 'is no directory');
  if (stats.uid !== process.getuid?.()) throw denied(path, `belongs to user ${stats.uid}`);
  if ((stats.mode & 0o077) !== 0) {
    const mode = (stats.mode & 0o777).toString(8).padStart(4, '0');
    throw denied(path, `has mode ${mode}, so that other users may enter it; make it 0700`);
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

function denied(path: string, what: string): CheckpointError {
  return new CheckpointError('Denied', `${path} ${what}`, { context: { path } });
}
