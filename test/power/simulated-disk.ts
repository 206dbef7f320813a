/**
 * A disk that tracks which changes are durable. It guarantees no more than POSIX does. An fsync of
 * a file makes its bytes durable, and not its name. An fsync of a directory makes the names in it
 * durable, and neither its own name nor any bytes. A power cut may lose everything else, each name
 * separately and in any order.
 */

import { type BigIntStats, type BigIntStatsFs, constants, type Dirent } from 'node:fs';

export interface FileNode {
  readonly kind: 'file';
  readonly ino: bigint;
  /** This buffer is replaced, never changed in place. */
  bytes: Buffer;
  durable: Buffer;
  /** Bytes that a failed sync has lost. The system treats them as written. */
  taken?: Buffer | undefined;
  links: number;
  mtimeNs: bigint;
  ctimeNs: bigint;
}

export interface LinkNode {
  readonly kind: 'link';
  readonly ino: bigint;
  readonly target: string;
  readonly ctimeNs: bigint;
}

/** A change of one name that is not durable yet. `node` absent: the name is removed. */
export interface NameChange {
  readonly name: string;
  readonly node: Node | undefined;
}

export interface DirectoryNode {
  readonly kind: 'directory';
  readonly ino: bigint;
  readonly names: Map<string, Node>;
  readonly durable: Map<string, Node>;
  pending: NameChange[];
}

export type Node = FileNode | LinkNode | DirectoryNode;

interface Descriptor {
  readonly node: FileNode | DirectoryNode;
  readonly path: string;
}

function failure(code: string, syscall: string, path = ''): Error {
  return Object.assign(new Error(`${code}: ${syscall} ${path}`), { code, syscall });
}

const BLOCK_BYTES = 4096;

export class SimulatedDisk {
  readonly root: DirectoryNode;
  readonly #descriptors = new Map<number, Descriptor>();
  readonly #nowNs: () => bigint;
  #nextDescriptor = 100;
  #nextIno = 1_000_000n;

  /** `root`: the tree that a power cut has left. */
  constructor(nowNs: () => bigint, root?: DirectoryNode) {
    this.#nowNs = nowNs;
    this.root = root ?? this.#directory();
  }

  open(path: string, flags: number): number {
    let node = this.#find(path, (flags & constants.O_NOFOLLOW) === 0, 'open', true);
    if (node && flags & constants.O_CREAT && flags & constants.O_EXCL) throw failure('EEXIST', 'open', path);
    if (!node && flags & constants.O_CREAT) node = this.#add(path, this.#file(), 'open');
    if (!node) throw failure('ENOENT', 'open', path);
    if (node.kind === 'link') throw failure('ELOOP', 'open', path);
    if (flags & constants.O_DIRECTORY && node.kind !== 'directory') throw failure('ENOTDIR', 'open', path);
    this.#nextDescriptor += 1;
    this.#descriptors.set(this.#nextDescriptor, { node, path });
    return this.#nextDescriptor;
  }

  close(descriptor: number): void {
    if (!this.#descriptors.delete(descriptor)) throw failure('EBADF', 'close');
  }

  /** Path of the descriptor when it was opened. */
  pathOf(descriptor: number): string {
    return this.#descriptors.get(descriptor)?.path ?? '';
  }

  read(descriptor: number, buffer: Uint8Array, offsetBytes: number): number {
    const { bytes } = this.#opened(descriptor, 'read');
    return bytes.copy(buffer, 0, offsetBytes, Math.min(bytes.length, offsetBytes + buffer.length));
  }

  write(descriptor: number, buffer: Uint8Array, offsetBytes: number): number {
    const file = this.#opened(descriptor, 'write');
    const bytes = Buffer.alloc(Math.max(file.bytes.length, offsetBytes + buffer.length));
    file.bytes.copy(bytes);
    bytes.set(buffer, offsetBytes);
    this.#setBytes(file, bytes);
    return buffer.length;
  }

  truncate(descriptor: number, sizeBytes: number): void {
    const file = this.#opened(descriptor, 'ftruncate');
    const bytes = Buffer.alloc(sizeBytes);
    file.bytes.copy(bytes);
    this.#setBytes(file, bytes);
  }

  sync(descriptor: number): void {
    const node = this.#descriptors.get(descriptor)?.node;
    if (!node) throw failure('EBADF', 'fsync');
    if (node.kind === 'file') {
      if (node.taken !== node.bytes) node.durable = node.bytes;
      return;
    }
    for (const change of node.pending) applyChange(node.durable, change);
    node.pending = [];
  }

  /** The disk fails. The bytes to write are lost, and the next sync does not report it. */
  failSync(descriptor: number): never {
    const node = this.#descriptors.get(descriptor)?.node;
    if (node?.kind === 'file') node.taken = node.bytes;
    if (node?.kind === 'directory') node.pending = [];
    throw failure('EIO', 'fsync');
  }

  fstat(descriptor: number): BigIntStats {
    const node = this.#descriptors.get(descriptor)?.node;
    if (!node) throw failure('EBADF', 'fstat');
    return statsOf(node);
  }

  stat(path: string, follows: boolean): BigIntStats {
    return statsOf(this.#there(path, follows, 'stat'));
  }

  statfs(): BigIntStatsFs {
    return { bavail: 1_000_000n, blocks: 1_000_000n, bsize: 4096n } as BigIntStatsFs;
  }

  link(existing: string, path: string): void {
    const node = this.#there(existing, false, 'link');
    if (node.kind !== 'file') throw failure('EPERM', 'link', existing);
    this.#add(path, node, 'link');
    node.links += 1;
    node.ctimeNs = this.#nowNs();
  }

  symlink(target: string, path: string): void {
    this.#add(path, { kind: 'link', ino: this.#nextIno++, target, ctimeNs: this.#nowNs() }, 'symlink');
  }

  readlink(path: string): string {
    const node = this.#there(path, false, 'readlink');
    if (node.kind !== 'link') throw failure('EINVAL', 'readlink', path);
    return node.target;
  }

  rename(from: string, to: string): void {
    const node = this.#there(from, false, 'rename');
    const target = this.#parentOf(to, 'rename');
    this.#change(target.parent, { name: target.name, node });
    const source = this.#parentOf(from, 'rename');
    this.#change(source.parent, { name: source.name, node: undefined });
    if (node.kind === 'file') node.ctimeNs = this.#nowNs();
  }

  unlink(path: string): void {
    const node = this.#there(path, false, 'unlink');
    if (node.kind === 'directory') throw failure('EISDIR', 'unlink', path);
    if (node.kind === 'file') node.links -= 1;
    const { parent, name } = this.#parentOf(path, 'unlink');
    this.#change(parent, { name, node: undefined });
  }

  mkdir(path: string): void {
    this.#add(path, this.#directory(), 'mkdir');
  }

  rmdir(path: string): void {
    const node = this.#there(path, false, 'rmdir');
    if (node.kind !== 'directory') throw failure('ENOTDIR', 'rmdir', path);
    if (node.names.size > 0) throw failure('ENOTEMPTY', 'rmdir', path);
    const { parent, name } = this.#parentOf(path, 'rmdir');
    this.#change(parent, { name, node: undefined });
  }

  readdir(path: string): Dirent<Buffer>[] {
    const node = this.#there(path, true, 'readdir');
    if (node.kind !== 'directory') throw failure('ENOTDIR', 'readdir', path);
    return [...node.names].map(([name, { kind }]) => ({ name: Buffer.from(name), ...kinds(kind) }) as never);
  }

  /** The bytes of a file by its path. Follows links. `undefined`: the file does not exist. */
  bytesAt(path: string): Buffer | undefined {
    const node = this.#find(path, true, 'read', true);
    return node?.kind === 'file' ? node.bytes : undefined;
  }

  #opened(descriptor: number, syscall: string): FileNode {
    const node = this.#descriptors.get(descriptor)?.node;
    if (!node) throw failure('EBADF', syscall);
    if (node.kind !== 'file') throw failure('EISDIR', syscall);
    return node;
  }

  #setBytes(file: FileNode, bytes: Buffer): void {
    file.bytes = bytes;
    file.mtimeNs = file.ctimeNs = this.#nowNs();
  }

  #file(): FileNode {
    const nowNs = this.#nowNs();
    const [ino, bytes] = [this.#nextIno++, Buffer.alloc(0)];
    return { kind: 'file', ino, bytes, durable: bytes, links: 1, mtimeNs: nowNs, ctimeNs: nowNs };
  }

  #directory(): DirectoryNode {
    return { kind: 'directory', ino: this.#nextIno++, names: new Map(), durable: new Map(), pending: [] };
  }

  #add<T extends Node>(path: string, node: T, syscall: string): T {
    const { parent, name } = this.#parentOf(path, syscall);
    if (parent.names.has(name)) throw failure('EEXIST', syscall, path);
    this.#change(parent, { name, node });
    return node;
  }

  #change(parent: DirectoryNode, change: NameChange): void {
    applyChange(parent.names, change);
    parent.pending.push(change);
  }

  #there(path: string, follows: boolean, syscall: string): Node {
    const node = this.#find(path, follows, syscall, false);
    if (!node) throw failure('ENOENT', syscall, path);
    return node;
  }

  #parentOf(path: string, syscall: string): { parent: DirectoryNode; name: string } {
    const segments = path.split('/').filter((segment) => segment !== '');
    const name = segments.pop() ?? '';
    const parent = this.#there(`/${segments.join('/')}`, true, syscall);
    if (parent.kind !== 'directory') throw failure('ENOTDIR', syscall, path);
    return { parent, name };
  }

  #find(path: string, follows: boolean, syscall: string, isQuiet: boolean): Node | undefined {
    let node: Node = this.root;
    const done: string[] = [];
    const segments = path.split('/').filter((segment) => segment !== '');
    for (const [index, segment] of segments.entries()) {
      if (node.kind !== 'directory') {
        if (isQuiet && syscall === 'read') return undefined;
        throw failure('ENOTDIR', syscall, path);
      }
      const next: Node | undefined = node.names.get(segment);
      if (!next) return undefined;
      const isLast = index === segments.length - 1;
      if (next.kind === 'link' && (!isLast || follows)) {
        const target = new URL(next.target, `file:///${done.join('/')}${done.length > 0 ? '/' : ''}`)
          .pathname;
        return this.#find(`${target}/${segments.slice(index + 1).join('/')}`, follows, syscall, isQuiet);
      }
      done.push(segment);
      node = next;
    }
    return node;
  }
}

export function applyChange(names: Map<string, Node>, { name, node }: NameChange): void {
  if (node) names.set(name, node);
  else names.delete(name);
}

function kinds(kind: Node['kind']) {
  return {
    isFile: () => kind === 'file',
    isDirectory: () => kind === 'directory',
    isSymbolicLink: () => kind === 'link',
  };
}

function statsOf(node: Node): BigIntStats {
  const file = node.kind === 'file' ? node : undefined;
  const size = BigInt(file?.bytes.length ?? 0);
  return {
    ...kinds(node.kind),
    dev: 1n,
    ino: node.ino,
    size,
    blocks: (size + 511n) / 512n,
    nlink: BigInt(file?.links ?? 1),
    mode: 0o644n,
    mtimeNs: file?.mtimeNs ?? 0n,
    ctimeNs: node.kind === 'directory' ? 0n : node.ctimeNs,
    birthtimeNs: node.ino,
  } as unknown as BigIntStats;
}

/** The bytes of an unsynced file after a power cut. */
export type Tear = (file: FileNode) => Buffer;

/** Any mixture of old and new blocks, and any size between the old and the new. */
export function tornBytes({ bytes, durable }: FileNode, fraction: () => number): Buffer {
  const [least, most] = [durable.length, bytes.length].sort((a, b) => a - b) as [number, number];
  const torn = Buffer.alloc(least + Math.floor(fraction() * (most - least + 1)));
  for (let start = 0; start < torn.length; start += BLOCK_BYTES) {
    const source = fraction() < 0.5 ? bytes : durable;
    torn.set(source.subarray(start, Math.min(start + BLOCK_BYTES, torn.length)), start);
  }
  return torn;
}
