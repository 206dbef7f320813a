/** A run on a simulated disk whose power may be cut at any moment. */

import { crc32c, createCheckpointManager, isCheckpointError, type RunManager } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import type { Processes } from '@holdfast/local-files';
import { openLocalStore } from '@holdfast/store-local';
import type { SeededRandom } from '@holdfast/testkit';
import { LONG_COUNT } from '../cloud/config.ts';
import { checkInvariants, filesOf, type RunView, SETTINGS, type Told } from '../crash/invariants.ts';
import { afterCut, allBut, byChance, type Cut, losableOf, NOTHING_MORE, processOn } from './power-cut.ts';
import { type DirectoryNode, SimulatedDisk } from './simulated-disk.ts';
import { toldStore } from './told-store.ts';

const DIRECTORY = '/disk/run';
const PART_BYTES_MIN = 64 * 1024;
/** Share of the checks for losing a single name or file, and then of the random losses. */
const SINGLE_LOSSES_ONE_IN = LONG_COUNT > 0 ? 1 : 6;
const CHANCES_ONE_IN = LONG_COUNT > 0 ? 1 : 4;
/** The mean is half a turn, so that processes overtake each other. */
const TURNS_MAX = 2;

export interface Process {
  readonly attempt: string;
  readonly index: number;
  readonly count: number;
}

/** The disk after a power cut, and the answers given before it. */
interface Image {
  readonly root: DirectoryNode;
  readonly told: readonly Told[];
}

export interface StageOptions {
  readonly random: SeededRandom;
  readonly hasHardLinks?: boolean | undefined;
  /**
   * A planted omission: the sync of such a path is skipped. The path comes without random digits.
   */
  readonly omits?: ((path: string) => boolean) | undefined;
  /** The first sync of such a path fails, and its bytes are lost. */
  readonly fails?: ((path: string) => boolean) | undefined;
}

export interface StartOptions {
  /** This process dies after its n-th change of the disk, or after the first call that matches. */
  readonly diesAfter?: number | ((call: string, path: string) => boolean) | undefined;
}

export class Stage {
  readonly told: Told[] = [];
  /** Every path that was synced, without random digits. */
  readonly synced = new Set<string>();
  readonly breaches = new Set<string>();
  readonly images: Image[] = [];
  readonly #options: StageOptions;
  readonly #disk: SimulatedDisk;
  readonly #shown = new Map<string, Buffer>();
  readonly #signatures = new Set<string>();
  readonly #gone = new Set<number>();
  #processCount = 0;
  #hasFailed = false;

  constructor(options: StageOptions) {
    this.#options = options;
    this.#disk = new SimulatedDisk(nowNs);
    // An operator has made it a moment ago and has not synced it.
    this.#disk.mkdir('/disk');
  }

  /** Starts a new process. `died` resolves when it is dead. `manager` then never answers again. */
  async start(
    { attempt, index, count }: Process,
    { diesAfter }: StartOptions = {},
  ): Promise<{ manager: RunManager; died: Promise<void> }> {
    const pid = this.#processCount++;
    const { promise: died, resolve: die } = Promise.withResolvers<void>();
    let changes = 0;
    const isLast = (call: string, path: string) => {
      if (!CHANGING.has(call)) return false;
      changes += 1;
      return typeof diesAfter === 'function' ? diesAfter(call, path) : changes === diesAfter;
    };
    const fileSystem = processOn(this.#disk, {
      hasHardLinks: this.#options.hasHardLinks,
      omits: (path) => this.#omits(path),
      fails: (path) => this.#fails(path),
      onChange: () => this.#look(),
      turns: () => Math.floor(this.#options.random.fraction() * TURNS_MAX),
      diesAfter: (call, path) => {
        const isDying = isLast(call, path);
        if (isDying) die();
        if (isDying) this.#gone.add(pid);
        return isDying;
      },
    });
    const processes = {
      ...identities(pid),
      isCertainlyGone: async (other: { pid: number }) => this.#gone.has(other.pid),
    };
    const store = await openLocalStore({ directory: DIRECTORY }, { fileSystem, crc32c, processes });
    const manager = createCheckpointManager({
      store: toldStore(store, {
        shown: (key) => this.#shown.set(key, this.#disk.bytesAt(`${DIRECTORY}/${key}`) ?? Buffer.alloc(0)),
        released: (key) => this.#shown.delete(key),
      }),
      attempt,
      writer: { index, count },
      settings: { ...SETTINGS, partSizeBytesMin: PART_BYTES_MIN, deletesPerSecondMax: 1_000_000 },
    });
    return { manager, died };
  }

  /** Saves a version and records the answer. A process that dies gets no answer. */
  async save(
    who: Process,
    version: bigint,
    { noWait, timeoutMs, ...start }: StartOptions & { noWait?: boolean; timeoutMs?: number } = {},
  ): Promise<void> {
    const { manager, died } = await this.start(who, start);
    const { attempt, index } = who;
    const saving = manager
      .save({ version, noWait, timeoutMs, buffers: filesOf(attempt, version, index) })
      .then(
        ({ isCommitted }) => (isCommitted ? 'committed' : 'delivered'),
        (error: unknown) => {
          if (!isCheckpointError(error)) throw error;
          return error.code;
        },
      );
    const outcome = await Promise.race([saving, died.then(() => null)]);
    if (outcome === null) return;
    this.tell({ attempt, writer: index, version, outcome });
    await Promise.race([manager.close(), died]);
  }

  /** Records an answer to a process. From now on it has to be true. */
  tell(told: Told): void {
    this.told.push(told);
    this.#look();
  }

  /** Checks `count` of the states that the cuts have left, chosen at random, as a later process. */
  async check(count: number, look = checkInvariants): Promise<void> {
    const { random } = this.#options;
    const left = [...this.images];
    while (left.length > count) left.splice(Math.floor(random.fraction() * left.length), 1);
    for (const { root, told } of left) {
      const view = await viewOf(new SimulatedDisk(nowNs, root));
      await look(view, told).catch((error: Error) => this.breaches.add(error.message));
    }
  }

  #omits(path: string): boolean {
    const plain = plainPath(path);
    this.synced.add(plain);
    return this.#options.omits?.(plain) ?? false;
  }

  #fails(path: string): boolean {
    if (this.#hasFailed || !this.#options.fails?.(plainPath(path))) return false;
    this.#hasFailed = true;
    return true;
  }

  /** Cuts the power now, in each way to be checked. */
  #look(): void {
    const { random } = this.#options;
    this.#cut(NOTHING_MORE);
    // A planted mistake shows in that state.
    if (this.#options.omits ?? this.#options.fails) return;
    for (const lost of losableOf(this.#disk.root)) {
      if (random.fraction() * SINGLE_LOSSES_ONE_IN < 1) this.#cut(allBut(lost));
    }
    if (random.fraction() * CHANCES_ONE_IN < 1) this.#cut(byChance(random));
  }

  #cut(cut: Cut): void {
    const { root, signature } = afterCut(this.#disk.root, cut);
    const told = `${this.told.map(({ version, outcome }) => `${version} ${outcome}`)} ${this.#shown.size}`;
    if (this.#signatures.has(`${told}\n${signature}`)) return;
    this.#signatures.add(`${told}\n${signature}`);
    const disk = new SimulatedDisk(nowNs, root);
    for (const [key, bytes] of this.#shown) {
      const found = disk.bytesAt(`${DIRECTORY}/${key}`);
      if (!found?.equals(bytes)) this.breaches.add(`${plainPath(key)} was shown, and is lost`);
    }
    this.images.push({ root, told: [...this.told] });
  }
}

const CHANGING = new Set([
  'write',
  'fsync',
  'fdatasync',
  'link',
  'symlink',
  'rename',
  'unlink',
  'mkdir',
  'rmdir',
]);

function nowNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}

function plainPath(path: string): string {
  return path.replace(/[0-9a-f]{16,}/g, 'X').replace(/X-\d+/, 'X');
}

function identities(pid: number): Pick<Processes, 'self'> {
  const bootId = '00000000-0000-0000-0000-000000000000';
  return { self: async () => ({ bootId, pidNamespace: '1', pid, startTicks: '1' }) };
}

/** The run after the machine was started again. */
async function viewOf(disk: SimulatedDisk): Promise<RunView> {
  const fileSystem = processOn(disk);
  const store: ObjectStore = await openLocalStore({ directory: DIRECTORY }, { fileSystem });
  const keys: string[] = [];
  for await (const { objects } of store.list('')) keys.push(...objects.map(({ key }) => key));
  return {
    violations: [],
    keys: () => keys,
    read: (key) => disk.bytesAt(`${DIRECTORY}/${key}`),
    openUploads: () => [],
    openStore: () => store,
  };
}
