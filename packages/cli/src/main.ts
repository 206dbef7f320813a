#!/usr/bin/env node
/** The `holdfast` program. */

import module from 'node:module';
import { systemClock } from '@holdfast/core/contract';
import packageJson from '../package.json' with { type: 'json' };
import { askAtTerminal } from './confirm.ts';
import { listenForInterrupt } from './interrupt.ts';
import { runCli } from './run-cli.ts';

// What is loaded later (the engine, a store's SDK) is compiled once per machine, not once per call.
module.enableCompileCache?.(); // from Node 22.8 on

// Libraries that find credentials write down what they send, secrets included, where these tell
// them to.
for (const name of ['AZURE_LOG_LEVEL', 'DEBUG', 'GOOGLE_SDK_NODE_LOGGING']) delete process.env[name];

// A reader that has seen enough (`holdfast list … | head -1`) is no error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  clock: systemClock,
  programVersion: packageJson.version,
  ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askAtTerminal : null,
  listenForInterrupt,
});

// What was written to a pipe is to arrive. What a library has left behind, such as a process that
// was to give credentials, is not waited for.
const written = [process.stdout, process.stderr].map(
  (stream) => new Promise<void>((resolve) => stream.write('', () => resolve())),
);
await Promise.all(written);

// With nothing left to do Node ends by itself. To leave in the middle of its own compilations can
// hang Node 24 for ever, so that is for leftovers alone.
setTimeout(() => process.exit(), 50).unref();
