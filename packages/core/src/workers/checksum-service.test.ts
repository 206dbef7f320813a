import { MessageChannel } from 'node:worker_threads';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { WorkerPort } from '../contract/transfer-workers.ts';
import { WorkerCalls } from '../contract/worker-calls.ts';
import { blake3 } from '../format/checksum.ts';
import { type ChecksumAnswer, type ChecksumRequest, serve } from './checksum-service.ts';

const BYTES = new TextEncoder().encode('bytes of a file');
const NOTHING = blake3(new Uint8Array(0));

function calls(): WorkerCalls<ChecksumRequest, ChecksumAnswer> {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port1.close());
  serve(port2 as unknown as WorkerPort);
  return new WorkerCalls(port1 as unknown as WorkerPort);
}

describe('the service keeps no hash', () => {
  test('after its digest', async () => {
    const service = calls();
    await service.call({ hash: 1, bytes: BYTES });
    expect(await service.call({ digestOf: 1 })).toEqual(blake3(BYTES));
    expect(await service.call({ digestOf: 1 })).toEqual(NOTHING);
  });

  test('that was dropped', async () => {
    const service = calls();
    await service.call({ hash: 1, bytes: BYTES });
    await service.call({ dropped: 1 });
    expect(await service.call({ digestOf: 1 })).toEqual(NOTHING);
  });
});
