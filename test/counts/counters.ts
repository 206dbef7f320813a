/**
 * Counts what this process does with bytes: what the kernel copies for it, and what its code
 * copies, allocates, hashes and tells workers in this thread. Import it before the engine, which
 * keeps the native functions that it finds, and start Node with `NODE_FLAGS`.
 */

import { subscribe } from 'node:diagnostics_channel';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { MessagePort } from 'node:worker_threads';

/** Smaller pieces belong to records, heads of requests and answers. */
const LARGE_BYTES = 32 * 1024;
/** Node reads small files, as those of /proc, into as much. */
const SMALL_ALLOCATION_BYTES = 64 * 1024;

export interface Counted {
  /** Bytes that system calls have read and written, of files and sockets, in all threads. */
  readonly readBytes: number;
  readonly writtenBytes: number;
  /** Bytes in large pieces that code in this thread has copied. */
  readonly copiedBytes: number;
  /** Pieces of more than 64 KiB that code in this thread has allocated. */
  readonly allocations: number;
  /** Bytes in large pieces whose CRC32C this thread has computed, and those of BLAKE3. */
  readonly hashedBytes: number;
  readonly blake3Bytes: number;
  /** Bytes that connections of this thread have sent and received. */
  readonly carriedBytes: number;
  /** Messages of this thread to others. */
  readonly messages: number;
  /** Bytes of objects that code in this thread has made. Each takes time to make and to free. */
  readonly heapBytes: number;
}

const done = { copiedBytes: 0, allocations: 0, hashedBytes: 0, blake3Bytes: 0, messages: 0 };

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Calls `note` before each call of a method. */
function watch(owner: object, name: string, note: (args: unknown[], self: unknown) => void): void {
  const method = Reflect.get(owner, name) as Method;
  Reflect.set(owner, name, function (this: unknown, ...args: unknown[]) {
    note(args, this);
    return method.apply(this, args);
  });
}

function copied(bytes: number): void {
  if (bytes >= LARGE_BYTES) done.copiedBytes += bytes;
}

function allocated(bytes: unknown): void {
  if (typeof bytes === 'number' && bytes > SMALL_ALLOCATION_BYTES) done.allocations += 1;
}

function sizeOf(value: unknown): number {
  return ArrayBuffer.isView(value) ? value.byteLength : 0;
}

/** Bytes in a message that are not shared, so they are copied. */
function sizeOfMessage(message: unknown): number {
  if (ArrayBuffer.isView(message))
    return message.buffer instanceof SharedArrayBuffer ? 0 : message.byteLength;
  if (typeof message !== 'object' || message === null) return 0;
  return Object.values(message).reduce((sum: number, value) => sum + sizeOfMessage(value), 0);
}

/** `new Uint8Array(1000)` and the like, but no view of memory that exists. */
function watchNew(name: 'Uint8Array' | 'ArrayBuffer' | 'SharedArrayBuffer'): void {
  globalThis[name] = new Proxy(globalThis[name], {
    construct(target, args, newTarget) {
      const [first] = args as unknown[];
      allocated(Array.isArray(first) || ArrayBuffer.isView(first) ? sizeOf(first) : first);
      copied(sizeOf(first));
      return Reflect.construct(target, args, newTarget);
    },
  }) as never;
}

function watchAll(): void {
  const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;
  watch(typedArray, 'set', ([source]) => copied(sizeOf(source)));
  watch(typedArray, 'slice', ([start = 0, end], self) => {
    copied((typeof end === 'number' ? end : sizeOf(self)) - Number(start));
  });
  watch(typedArray, 'copyWithin', (_, self) => copied(sizeOf(self)));
  watch(Buffer.prototype, 'copy', ([, , start = 0], self) => copied(sizeOf(self) - Number(start)));
  watch(Buffer, 'concat', ([list]) =>
    copied((list as unknown[]).reduce((sum: number, each) => sum + sizeOf(each), 0)),
  );
  watch(Buffer, 'from', ([value]) => copied(sizeOf(value)));
  for (const name of ['alloc', 'allocUnsafe', 'allocUnsafeSlow'])
    watch(Buffer, name, ([size]) => allocated(size));
  for (const name of ['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'] as const) watchNew(name);
  watch(MessagePort.prototype, 'postMessage', ([message]) => {
    done.messages += 1;
    copied(sizeOfMessage(message));
  });
  watchHashes();
}

function watchHashes(): void {
  const load = createRequire(import.meta.resolve('@holdfast/core'));
  const own = fileURLToPath(
    new URL(
      `../native/crc32c-${process.platform}-${process.arch}.node`,
      import.meta.resolve('@holdfast/core'),
    ),
  );
  // The engine takes its own code if it is compiled.
  watch(load(existsSync(own) ? own : '@node-rs/crc32') as object, 'crc32c', ([bytes]) => {
    if (sizeOf(bytes) >= LARGE_BYTES) done.hashedBytes += sizeOf(bytes);
  });
  const native = load('@napi-rs/blake-hash') as { Blake3Hasher: { prototype: object } };
  const blake3 = ([bytes]: unknown[]) => {
    if (sizeOf(bytes) >= LARGE_BYTES) done.blake3Bytes += sizeOf(bytes);
  };
  watch(native, 'blake3', blake3);
  watch(native.Blake3Hasher.prototype, 'update', blake3);
}

watchAll();

const sockets: Socket[] = [];
subscribe('net.client.socket', (message) => sockets.push((message as { socket: Socket }).socket));

/** `rchar` and `wchar` of proc(5). */
function ofKernel(name: string): number {
  const line = readFileSync('/proc/self/io', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(`${name}: `));
  return Number(line?.slice(name.length + 2));
}

/** Counts so far. `heapBytes` includes what earlier calls have left: free it first. */
export function counted(): Counted {
  return {
    ...done,
    carriedBytes: sockets.reduce((sum, { bytesRead, bytesWritten }) => sum + bytesRead + bytesWritten, 0),
    readBytes: ofKernel('rchar'),
    writtenBytes: ofKernel('wchar'),
    heapBytes: getHeapStatistics().used_heap_size,
  };
}
