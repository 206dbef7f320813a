import { isCheckpointError, type ObjectStore, repeatDelayMs, systemRandom } from '@holdfast/core/contract';
import { crc32c } from '../crc32c.ts';
import { pause } from './expect.ts';

const ATTEMPTS_MAX = 10;
const DELAYS = { delayMsBase: 20, delayMsMax: 10_000, random: systemRandom };

/**
 * Repeats a create after temporary errors (a busy provider has them) until the outcome is certain.
 * `bytes` must be unique: they identify objects this process created. Throws any error but
 * `AlreadyExists` and temporary ones.
 */
export async function createForSure(
  store: ObjectStore,
  key: string,
  bytes: Uint8Array,
): Promise<'created' | 'lost'> {
  for (let attempt = 1; ; attempt++) {
    try {
      await store.create(key, bytes, { crc32c: crc32c(bytes) });
      return 'created';
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      if (error.code === 'AlreadyExists') {
        const isOwn = attempt > 1 && (await holds(store, key, bytes));
        return isOwn ? 'created' : 'lost';
      }
      if (error.status !== 'temporary' || attempt === ATTEMPTS_MAX) throw error;
      await pause(repeatDelayMs(error, attempt, DELAYS));
    }
  }
}

async function holds(store: ObjectStore, key: string, bytes: Uint8Array): Promise<boolean> {
  const object = await store.get(key, { maxBytes: 2 ** 30 });
  return Buffer.compare(object.bytes, bytes) === 0;
}
