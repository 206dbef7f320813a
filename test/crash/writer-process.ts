/**
 * A process that runs the saves that it receives, any number of them at once. The parent forks it
 * with the credentials in its environment. Every save has its own manager, so the engine sees each
 * as a separate process.
 */

import { flushCompileCache } from 'node:module';
import { createCheckpointManager, isCheckpointError } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { FAULTS, type FaultPlan, FaultyStore } from '@holdfast/testkit';
import { largeFilesOf } from './large-files.ts';
import type { Answer, Halt, SaveOrder, WriterMessage, WriterOrder } from './writer-messages.ts';

/** The save sends these bytes when it is released. */
const LAST_BYTES = 1000;
/**
 * Other writers are killed and restarted within this time. A longer wait can only fail, and the
 * error then names the missing writers.
 */
const COMMIT_TIMEOUT_MS = 60_000;
/** Long enough for the first bytes of a request, too short for a complete large one. */
const MEANWHILE_MS = 1;

const releases = new Map<number, () => void>();

process.on('message', (message: WriterOrder) => {
  if (message.type === 'go') releases.get(message.id)?.();
  else
    save(message.id, message.order).then(
      (answer) => {
        send({ type: 'told', id: message.id, answer });
        // Writers end by SIGKILL, so Node would never write what it has compiled, and each writer
        // would compile all sources again.
        flushCompileCache();
      },
      (error: unknown) => send({ type: 'failed', id: message.id, message: String(error) }),
    );
});
process.on('disconnect', () => process.exit());
send({ type: 'ready' });

async function save(id: number, order: SaveOrder): Promise<Answer> {
  const { attempt, index, count, version, partSizeBytes } = order;
  const store = new FaultyStore(await openStore(order.uri, process.env), order.halt && planOf(order.halt));
  void store.stopped.then(() => process.kill(process.pid, 'SIGKILL'));
  const released = new Promise<void>((resolve) => releases.set(id, resolve));
  const settings = {
    bufferBytes: 4 * partSizeBytes,
    partSizeBytesMin: partSizeBytes,
    commitTimeoutMs: COMMIT_TIMEOUT_MS,
  };
  const manager = createCheckpointManager({ store, attempt, writer: { index, count }, settings });
  try {
    const files = largeFilesOf(attempt, version, index, order.largeBytes);
    const sources = order.isHeld ? heldBack(files, released) : files;
    await manager.save({
      version,
      files: sources,
      onProgress: ({ type }) => {
        if (type === 'joined' || type === 'delivered') send({ type, id });
      },
    });
    return { outcome: 'committed', message: '', calls: callsOf(store) };
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
    return { outcome: error.code, message: error.message, calls: callsOf(store) };
  } finally {
    await manager.close();
  }
}

function heldBack(files: Record<string, Uint8Array>, released: Promise<void>) {
  async function* slowly(bytes: Uint8Array) {
    yield bytes.subarray(0, -LAST_BYTES);
    await released;
    yield bytes.subarray(-LAST_BYTES);
  }
  return Object.fromEntries(
    Object.entries(files).map(([name, bytes]) => [name, name.endsWith('/large') ? slowly(bytes) : bytes]),
  );
}

function planOf({ signal, moment, at }: Halt): FaultPlan {
  let skip = typeof at === 'number' ? 0 : (at.skip ?? 0);
  let isDue = true;
  const halt = () => process.kill(process.pid, signal);
  return ({ number, operation, key }) => {
    const fits = typeof at === 'number' ? number === at : operation === at.operation && at.key.test(key);
    if (!isDue || !fits || skip-- > 0) return undefined;
    isDue = false;
    if (moment === 'after') return FAULTS.stopAfter;
    if (moment === 'before') halt();
    else setTimeout(halt, MEANWHILE_MS);
    return undefined;
  };
}

function callsOf(store: FaultyStore): Answer['calls'] {
  return store.calls.map(({ operation }) => operation);
}

function send(message: WriterMessage): void {
  process.send?.(message);
}
