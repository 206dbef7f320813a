#!/usr/bin/env node
/** The `holdfast` program. It listens for signals first, and then loads the rest. */

import module from 'node:module';
import { EarlySignals } from './early-signals.ts';

const early = new EarlySignals(process);

// Caches the compiled code of modules loaded later (the engine, a store's SDK): once per machine,
// not per call.
module.enableCompileCache?.(); // From Node 22.8 on.

// These variables make libraries that find credentials log what they send, including secrets.
for (const name of ['AZURE_LOG_LEVEL', 'DEBUG', 'GOOGLE_SDK_NODE_LOGGING']) delete process.env[name];

const { runProgram } = await import('./program.ts');
await runProgram(process.env, early);
