/** What a power cut may leave on a disk, and the disk as one process sees it. */

import type { FileSystem } from '@holdfast/local-files';
import type { SeededRandom } from '@holdfast/testkit';
import {
  applyChange,
  type DirectoryNode,
  type FileNode,
  type NameChange,
  type Node,
  type SimulatedDisk,
  tornBytes,
} from './simulated-disk.ts';

/** Selects which non-durable changes survive a power cut. */
export interface Cut {
  keepsName(change: NameChange): boolean;
  bytesOf(file: FileNode): Buffer;
}

/**
 * Everything that was not synced is lost. A file whose name was synced and whose bytes were not is
 * empty.
 */
export const NOTHING_MORE: Cut = { keepsName: () => false, bytesOf: ({ durable }) => durable };

/** Everything survives except this one name, or the bytes of this one file. */
export function allBut(lost: NameChange | FileNode): Cut {
  return {
    keepsName: (change) => change !== lost,
    bytesOf: (file) => (file === lost ? file.durable : file.bytes),
  };
}

/** Each name survives or is lost at random, and each file is torn at random. */
export function byChance(random: SeededRandom): Cut {
  const share = random.fraction();
  return {
    keepsName: () => random.fraction() < share,
    bytesOf: (file) => (file.bytes === file.durable ? file.bytes : tornBytes(file, () => random.fraction())),
  };
}

/** All changes that are not durable yet. */
export function losableOf(root: DirectoryNode): (NameChange | FileNode)[] {
  const found = new Set<NameChange | FileNode>();
  const seen = new Set<Node>();
  const visit = (node: Node | undefined) => {
    if (!node || seen.has(node)) return;
    seen.add(node);
    if (node.kind === 'file' && node.bytes !== node.durable) found.add(node);
    if (node.kind !== 'directory') return;
    for (const change of node.pending) found.add(change);
    for (const child of node.names.values()) visit(child);
  };
  visit(root);
  return [...found];
}

/** A copy of the tree after the cut, and a signature that identifies its state. */
export function afterCut(root: DirectoryNode, cut: Cut): { root: DirectoryNode; signature: string } {
  const copies = new Map<Node, Node>();
  const signature: string[] = [];
  const copy = (node: Node, path: string): Node => {
    const known = copies.get(node);
    if (known && node.kind !== 'file') return known;
    if (node.kind === 'link') {
      signature.push(`${path} -> ${node.target}`);
      return node;
    }
    if (node.kind === 'file') {
      const bytes = known?.kind === 'file' ? known.bytes : cut.bytesOf(node);
      signature.push(`${path} ${node.ino} ${bytes.equals(node.bytes) ? 'whole' : bytes.length}`);
      if (known?.kind === 'file') {
        known.links += 1;
        return known;
      }
      const file: FileNode = { ...node, bytes, durable: bytes, links: 1 };
      copies.set(node, file);
      return file;
    }
    const left = new Map(node.durable);
    for (const change of node.pending) if (cut.keepsName(change)) applyChange(left, change);
    const directory: DirectoryNode = { ...node, names: new Map(), durable: new Map(), pending: [] };
    copies.set(node, directory);
    for (const [name, child] of left) {
      const copied = copy(child, `${path}/${name}`);
      directory.names.set(name, copied);
      directory.durable.set(name, copied);
    }
    return directory;
  };
  const copied = copy(root, '') as DirectoryNode;
  return { root: copied, signature: signature.join('\n') };
}

export interface ProcessOptions {
  /** The process dies after this call: neither it nor a later one ever returns. */
  readonly diesAfter?: ((call: string, path: string) => boolean) | undefined;
  /** A planted omission: this sync reports success and does nothing. */
  readonly omits?: ((path: string) => boolean) | undefined;
  /** This sync fails. */
  readonly fails?: ((path: string) => boolean) | undefined;
  readonly hasHardLinks?: boolean | undefined;
  /** Called after each call that changes something, or makes it durable. */
  readonly onChange?: (() => void) | undefined;
  /** Duration of a call, in turns of the other processes. */
  readonly turns?: (() => number) | undefined;
}

/** The disk as one process sees it. A call that is not implemented here fails. */
export function processOn(disk: SimulatedDisk, options: ProcessOptions = {}): FileSystem {
  const { diesAfter, omits, fails, hasHardLinks = true, onChange, turns = () => 0 } = options;
  let isDead = false;
  const call = async <T>(name: string, path: string, work: () => T, changes = false): Promise<T> => {
    for (let turn = turns(); turn > 0; turn--) await new Promise(setImmediate);
    if (isDead) return new Promise<never>(() => undefined);
    const result = work();
    if (changes) onChange?.();
    if (diesAfter?.(name, path)) isDead = true;
    return isDead ? new Promise<never>(() => undefined) : result;
  };
  const syncBy = (name: string) => (descriptor: number) => {
    const path = disk.pathOf(descriptor);
    const sync = () => (fails?.(path) ? disk.failSync(descriptor) : disk.sync(descriptor));
    return call(name, path, () => (omits?.(path) ? undefined : sync()), true);
  };
  const refuse = () => {
    throw Object.assign(new Error('EPERM: link'), { code: 'EPERM', syscall: 'link' });
  };
  const never = (name: string) => () => Promise.reject(new Error(`the store does not call ${name}`));
  return {
    open: (path, flags) => call('open', path, () => disk.open(path, flags), true),
    close: (descriptor) => call('close', '', () => disk.close(descriptor)),
    read: (descriptor, { buffer, start, lengthBytes, offsetBytes }) =>
      call('read', '', () => disk.read(descriptor, buffer.subarray(start, start + lengthBytes), offsetBytes)),
    write: (descriptor, { buffer, start, lengthBytes, offsetBytes }) => {
      const bytes = buffer.subarray(start, start + lengthBytes);
      return call('write', disk.pathOf(descriptor), () => disk.write(descriptor, bytes, offsetBytes), true);
    },
    fsync: syncBy('fsync'),
    fdatasync: syncBy('fdatasync'),
    ftruncate: (descriptor, sizeBytes) =>
      call('ftruncate', '', () => disk.truncate(descriptor, sizeBytes), true),
    fchmod: never('fchmod'),
    futimes: never('futimes'),
    chmod: never('chmod'),
    fstat: (descriptor) => call('fstat', '', () => disk.fstat(descriptor)),
    stat: (path) => call('stat', path, () => disk.stat(path, true)),
    statfs: (path) => call('statfs', path, () => disk.statfs()),
    lstat: (path) => call('lstat', path, () => disk.stat(path, false)),
    link: (existing, path) =>
      call('link', path, () => (hasHardLinks ? disk.link(existing, path) : refuse()), true),
    symlink: (target, path) => call('symlink', path, () => disk.symlink(target, path), true),
    readlink: (path) => call('readlink', path, () => disk.readlink(path)),
    rename: (from, to) => call('rename', to, () => disk.rename(from, to), true),
    unlink: (path) => call('unlink', path, () => disk.unlink(path), true),
    mkdir: (path) => call('mkdir', path, () => disk.mkdir(path), true),
    rmdir: (path) => call('rmdir', path, () => disk.rmdir(path), true),
    removeAll: never('removeAll'),
    readdir: (path) => call('readdir', path, () => disk.readdir(path)),
    realpath: (path) => call('realpath', path, () => path),
    readText: async (path) => {
      const bytes = await call('readText', path, () => disk.bytesAt(path));
      if (bytes) return bytes.toString();
      throw Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT', syscall: 'open' });
    },
  };
}
