import { byteArray, CheckpointError, having, shown } from '@holdfast/core/contract';
import type { World } from '../coordinator.ts';

/**
 * Resolves to the bytes of rank `root` on every rank; the bytes that other ranks pass are ignored.
 * Every rank must call it with the same root, and in the same order as other calls of the world.
 * Fails as `allGather`. `InvalidArgument`: `root` is not a rank of this world.
 */
export async function broadcast(world: World, root: number, bytes: Uint8Array): Promise<Uint8Array> {
  having('allGather')('world', world);
  byteArray('bytes', bytes);
  if (!Number.isSafeInteger(root) || root < 0 || root >= world.size) {
    const message = `broadcast from rank ${shown(root)}: the world has ranks 0 to ${world.size - 1}`;
    throw new CheckpointError('InvalidArgument', message);
  }
  const parts = await world.allGather(world.rank === root ? bytes : new Uint8Array());
  return parts[root] ?? new Uint8Array();
}
