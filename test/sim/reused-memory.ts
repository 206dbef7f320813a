/**
 * A manager takes one WebAssembly.Memory of 16 MiB at least. Thousands of short-lived ones a minute keep the garbage collector busy with
 * nothing else, so the simulation lends the same few to one schedule after the other. They come with the last schedule's bytes in them,
 * as memory of the pool may.
 */

interface Pages {
  readonly initial: number;
}

const PAGE_BYTES = 64 * 1024;
const free: ArrayBuffer[] = [];
let lent: ArrayBuffer[] = [];

class ReusedMemory {
  readonly buffer: ArrayBuffer;

  constructor({ initial }: Pages) {
    const at = free.findIndex((memory) => memory.byteLength === initial * PAGE_BYTES);
    this.buffer = free.splice(at, at < 0 ? 0 : 1)[0] ?? new ArrayBuffer(initial * PAGE_BYTES);
    lent.push(this.buffer);
  }
}

/** From now on, in this whole process. */
export function reuseMemory(): void {
  Object.assign(Reflect.get(globalThis, 'WebAssembly') as object, { Memory: ReusedMemory });
}

/** Nothing that took memory before is running any more. */
export function reclaimMemory(): void {
  free.push(...lent);
  lent = [];
}
