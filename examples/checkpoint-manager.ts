/**
 * A custom checkpoint manager for `train`. Checkpoints are files of a directory, such as `3.ckpt`.
 * It keeps only the newest two.
 */

import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { LocalCoordinator, State, StopIteration, setCheckpointManager, train } from '@holdfast/training';

const directory = join(tmpdir(), 'holdfast-example', 'newest-two');
const pathOf = (version: bigint) => join(directory, `${version}.ckpt`);

/** Newest first. */
async function versions(): Promise<bigint[]> {
  await mkdir(directory, { recursive: true });
  const numbers = (await readdir(directory)).flatMap((name) => /^(\d+)\.ckpt$/.exec(name)?.[1] ?? []);
  return numbers.map(BigInt).sort((a, b) => (a < b ? 1 : -1));
}

function checkpoint(version: bigint, isCommitted: boolean) {
  const part = `${pathOf(version)}.part`;
  return {
    version,
    openOutputStream: () => Writable.toWeb(createWriteStream(part, { flush: true })),
    openInputStream: () => Readable.toWeb(createReadStream(pathOf(version))) as ReadableStream<Uint8Array>,
    commit: async () => {
      if (!isCommitted) await rename(part, pathOf(version));
      isCommitted = true;
      for (const old of (await versions()).slice(2)) await rm(pathOf(old));
    },
    discard: () => rm(part, { force: true }),
  };
}

const saved = (version: bigint | undefined) => (version === undefined ? null : checkpoint(version, true));
setCheckpointManager({
  create: async () => checkpoint(((await versions())[0] ?? -1n) + 1n, false),
  get: async (version) => saved((await versions()).find((each) => each === version)),
  latest: async () => saved((await versions())[0]),
  list: async () => (await versions()).map((version) => ({ version })),
});

class Sum extends State<number> {
  sum = 0;
  override sync = async () => undefined; // this process trains alone
  override snapshot = () => this.sum;
  override apply = (sum: number) => Object.assign(this, { sum });
  override shouldSaveCheckpoint = () => true;
}

const data = [10, 10, 10];
function addNext(state: Sum): void {
  const next = data.shift();
  if (next === undefined) throw new StopIteration('no data left');
  state.sum += next;
}
const { sum } = await train(new LocalCoordinator(), addNext, new Sum());
console.log(`trained to ${sum}; kept: ${(await versions()).join(', ')}`);
