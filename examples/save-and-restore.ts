import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';

const here = join(tmpdir(), 'holdfast-example');
await using run = await openCheckpointManager(pathToFileURL(join(here, 'run')).href);

// From memory to memory.
const weights = Float32Array.of(0.5, -0.25, 2);
await run.save({ version: 100, buffers: { 'weights.bin': new Uint8Array(weights.buffer) } });
const restored = new Float32Array(weights.length);
await run.restore({ version: 100, to: { 'weights.bin': new Uint8Array(restored.buffer) } });

// To a directory, and from one: without a version, the next.
await run.restore({ to: join(here, 'model'), replace: true });
await run.save({ dir: join(here, 'model'), metrics: { loss: 2.13 } });

console.log(`restored ${restored.join(' ')}; the latest version is ${(await run.latest())?.version}`);
