import { byteArray, CheckpointError, type RandomSource, recordOf } from '@holdfast/core/contract';
import type { ShardSet } from '../shard-set.ts';
import { setOf, wholeShards } from './open-set.ts';

/**
 * Finds the shards among `files` by their names; other files are ignored. The bytes must not change
 * while the set is in use. `NotFound`: there are no shards. `Corrupt`: they are not a whole
 * checkpoint.
 */
export function shardsInMemory(files: Readonly<Record<string, Uint8Array>>, where = 'memory'): ShardSet {
  recordOf(byteArray)('files', files);
  const shards = wholeShards({ where, names: Object.keys(files) });
  return setOf(
    { where, version: null },
    shards.map((shard) => ({ ...shard, source: sourceOf(shard.name, files[shard.name] as Uint8Array) })),
  );
}

/** A source of bytes in memory. They must not change while it is in use. */
export function sourceOf(name: string, bytes: Uint8Array): RandomSource {
  return {
    sizeBytes: bytes.byteLength,
    async readInto(offsetBytes, buffer) {
      const end = offsetBytes + buffer.byteLength;
      if (!(offsetBytes >= 0 && end <= bytes.byteLength)) {
        const message = `bytes ${offsetBytes} to ${end} lie outside "${name}", which has ${bytes.byteLength}`;
        throw new CheckpointError('InvalidArgument', message, { context: { name } });
      }
      buffer.set(bytes.subarray(offsetBytes, end));
    },
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
}
