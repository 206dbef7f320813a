/**
 * A manager takes one WebAssembly.Memory of at least 16 MiB. Thousands of short-lived ones a minute
 * would keep the garbage collector busy, so the simulation reuses the same few for all schedules.
 * They still hold the bytes of the last schedule, as memory of the pool may.
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

/** Reuses memory from now on, in this whole process. */
export function reuseMemory(): void {
  Object.assign(Reflect.get(globalThis, 'WebAssembly') as object, { Memory: ReusedMemory });
}

/** Call only when no code that took memory before is still running. */
export function reclaimMemory(): void {
  free.push(...lent);
  lent = [];
}
