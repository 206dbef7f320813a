/**
 * Counts what this process does with bytes: what the kernel copies for it, what its code copies,
 * allocates and hashes in this thread, and the processor time of this thread. Import it before the
 * engine, which keeps the native functions that it finds.
 */

import { subscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
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
  /** Bytes in large pieces whose CRC32C this thread has computed. */
  readonly hashedBytes: number;
  /** Bytes that connections of this thread have sent and received. */
  readonly carriedBytes: number;
  /** Processor time of this thread and of all. */
  readonly mainCpuMs: number;
  readonly cpuMs: number;
}

const done = { copiedBytes: 0, allocations: 0, hashedBytes: 0 };

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
  watch(MessagePort.prototype, 'postMessage', ([message]) => copied(sizeOfMessage(message)));
  const native = createRequire(import.meta.resolve('@holdfast/core'))('@node-rs/crc32') as object;
  watch(native, 'crc32c', ([bytes]) => {
    if (sizeOf(bytes) >= LARGE_BYTES) done.hashedBytes += sizeOf(bytes);
  });
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

function msOf({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) / 1000;
}

/** So far. */
export function counted(): Counted {
  const { threadCpuUsage } = process as { threadCpuUsage?: () => NodeJS.CpuUsage };
  if (threadCpuUsage === undefined) throw new Error('this Node does not tell the time of a thread');
  return {
    ...done,
    carriedBytes: sockets.reduce((sum, { bytesRead, bytesWritten }) => sum + bytesRead + bytesWritten, 0),
    readBytes: ofKernel('rchar'),
    writtenBytes: ofKernel('wchar'),
    mainCpuMs: msOf(threadCpuUsage.call(process)),
    cpuMs: msOf(process.cpuUsage()),
  };
}
