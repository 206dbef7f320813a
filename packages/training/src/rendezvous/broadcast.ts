import { byteArray, CheckpointError, having, shown } from '@holdfast/core/contract';
import type { World } from '../coordinator.ts';

/**
 * What rank `root` brings, on every rank; what the others pass is not looked at. Every rank calls it, with the same root, and in the same
 * order as other calls of the world. Fails as `allGather`; `InvalidArgument`: there is no
 * such rank.
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
