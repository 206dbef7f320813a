/**
 * A writer that saves version after version until it is killed. Usage: `saver.ts URI ATTEMPT INDEX
 * COUNT FIRST_VERSION`.
 */

import { openCheckpointManager } from '@holdfast/stores';

const [uri = '', attempt = '', index = '', count = '', firstVersion = ''] = process.argv.slice(2);
const manager = await openCheckpointManager(uri, {
  attempt,
  writer: { index: Number(index), count: Number(count) },
});
for (let version = BigInt(firstVersion); ; version++) {
  const large = new Uint8Array(9_000_000).fill(Number(version % 251n)); // two parts
  const buffers = { [`writer-${index}/large.bin`]: large, [`writer-${index}/step`]: new Uint8Array([1]) };
  await manager.save({
    version,
    buffers,
    onProgress: ({ type }) => {
      if (type === 'planned') process.stdout.write('begun\n');
    },
  });
  process.stdout.write(`committed ${version}\n`);
}
