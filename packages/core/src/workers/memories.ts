/**
 * Memory of buffer pools, which begins on a page. A worker keeps what it was ever told of until it
 * collects garbage, which may be never. So shared memory that is no longer needed is used again,
 * for the next pool of its size, as long as there are threads.
 */

const WASM_PAGE_BYTES = 64 * 1024;

/**
 * The part of `WebAssembly` that is used. The language's own types do not include those of the
 * platform.
 */
interface WasmMemoryConstructor {
  new (pages: { initial: number; maximum: number; shared: boolean }): { readonly buffer: ArrayBufferLike };
}
declare const WebAssembly: { readonly Memory: WasmMemoryConstructor };

const unused: ArrayBufferLike[] = [];

/** `sizeBytes`: a multiple of 64 KiB. */
export function allocate(sizeBytes: number, shared: boolean): ArrayBufferLike {
  const pages = sizeBytes / WASM_PAGE_BYTES;
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared }).buffer;
}

/** Memory that can be shared. It holds what was there before. */
export function takeShared(sizeBytes: number): ArrayBufferLike {
  const index = unused.findIndex(({ byteLength }) => byteLength === sizeBytes);
  const [memory] = index === -1 ? [] : unused.splice(index, 1);
  return memory ?? allocate(sizeBytes, true);
}

/** No thread uses it any more. */
export function keepForNext(memory: ArrayBufferLike): void {
  unused.push(memory);
}

/** The threads have ended. */
export function dropUnused(): void {
  unused.length = 0;
}
