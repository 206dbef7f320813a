/** Behaviour that only shows in a separate process. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { RendezvousServer } from '@holdfast/training';
import { expect, test } from 'vitest';
import { cleanEnv } from '../e2e/holdfast-process.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** Exits without a message to the coordinator. */
const PROGRAM = `
import { MultiProcessCoordinator } from '@holdfast/training';
const options = { port: Number(process.argv[1]), minWorkers: 1, maxWorkers: 1 };
const coordinator = await MultiProcessCoordinator.connect(options);
const world = await coordinator.rendezvous();
await world.barrier();
console.log('rank', world.rank, 'of', world.size);
`;

test('a coordinator that is not closed does not keep its process alive', async () => {
  await using server = await RendezvousServer.start({ lastCallMs: 0 });
  const child = spawn(
    process.execPath,
    ['--conditions=holdfast-source', '--input-type=module', '-e', PROGRAM, `${server.port}`],
    { cwd: HERE, env: cleanEnv(), stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  const [exitCode] = await once(child, 'close');
  expect([exitCode, stdout]).toEqual([0, 'rank 0 of 1\n']);
});
