/** A manager of one's own for `train`: checkpoints are files of a directory, such as `3.ckpt`, and only the newest two are kept. */

import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { LocalCoordinator, State, StopIteration, setCheckpointManager, train } from '@holdfast/training';

class NewestTwo {
  readonly #directory = join(tmpdir(), 'holdfast-example', 'newest-two');

  async list() {
    await mkdir(this.#directory, { recursive: true });
    const numbers = (await readdir(this.#directory)).flatMap((name) => /^(\d+)\.ckpt$/.exec(name)?.[1] ?? []);
    const versions = numbers.map((digits) => ({ version: BigInt(digits) }));
    return versions.sort((a, b) => (a.version < b.version ? 1 : -1));
  }

  async latest() {
    const [newest] = await this.list();
    return newest ? this.#checkpoint(newest.version, true) : null;
  }

  async get(version: bigint) {
    const isThere = (await this.list()).some((each) => each.version === version);
    return isThere ? this.#checkpoint(version, true) : null;
  }

  async create() {
    const [newest] = await this.list();
    return this.#checkpoint(newest ? newest.version + 1n : 0n, false);
  }

  #checkpoint(version: bigint, isCommitted: boolean) {
    const path = join(this.#directory, `${version}.ckpt`);
    return {
      version,
      openOutputStream: () => Writable.toWeb(createWriteStream(`${path}.part`, { flush: true })),
      openInputStream: () => Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array>,
      commit: async () => {
        if (!isCommitted) await rename(`${path}.part`, path);
        isCommitted = true;
        for (const old of (await this.list()).slice(2))
          await rm(join(this.#directory, `${old.version}.ckpt`));
      },
      discard: () => rm(`${path}.part`, { force: true }),
    };
  }
}

class Sum extends State<number> {
  sum = 0;
  override sync = async () => undefined; // it trains alone
  override snapshot = () => this.sum;
  override apply = (sum: number) => Object.assign(this, { sum });
  override shouldSaveCheckpoint = () => true;
}

const manager = new NewestTwo();
setCheckpointManager(manager);
const data = [10, 10, 10];
function addNext(state: Sum): void {
  const next = data.shift();
  if (next === undefined) throw new StopIteration('no data left');
  state.sum += next;
}
const { sum } = await train(new LocalCoordinator(), addNext, new Sum());
console.log(`trained to ${sum}; kept: ${(await manager.list()).map(({ version }) => version).join(', ')}`);
