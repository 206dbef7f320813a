/**
 * Writes a checkpoint as streams and reads one back. Use streams for bytes that are generated while
 * saving, or that do not fit in memory.
 */

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';

async function* embeddings(): AsyncGenerator<Uint8Array> {
  for (let row = 0; row < 1000; row++) yield new Uint8Array(new Float32Array(64).fill(row).buffer);
}

const uri = pathToFileURL(join(tmpdir(), 'holdfast-example', 'streams')).href;
await using run = await openCheckpointManager(uri);

// If an error leaves this block before `commit`, the checkpoint is discarded and no reader ever
// sees it.
await using checkpoint = await run.create();
const rows = checkpoint.openOutputStream('embeddings.bin').getWriter();
for await (const row of embeddings()) await rows.write(row);
await rows.close();
const notes = checkpoint.openOutputStream('notes.txt').getWriter();
await notes.write(new TextEncoder().encode('1000 rows of 64 float32'));
await notes.close();
await checkpoint.commit({ metrics: { loss: 2.13 } });

// Each chunk is verified against its checksum before the stream returns it.
const latest = await run.latest();
let sizeBytes = 0;
for await (const chunk of latest?.openInputStream('embeddings.bin') ?? []) sizeBytes += chunk.byteLength;
console.log(`version ${latest?.version}: read ${sizeBytes} bytes of embeddings.bin`);
