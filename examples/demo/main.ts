/** `npm run demo`: plays the story, prints the results, and leaves no process running. */

import { join } from 'node:path';
import { toCheckpointError } from '@holdfast/core';
import { openCheckpointManager } from '@holdfast/stores';
import { DemoFailure } from './checks.ts';
import { killAll } from './child.ts';
import { exportBest } from './export-best.ts';
import { runOnServer, SERVERS, type ServerName, tortureOthers } from './on-server.ts';
import { type DemoOptions, readWish, USAGE } from './options.ts';
import { shapeOf } from './parameters.ts';
import { heading, say, seconds, size, table } from './screen.ts';
import { bringBack, compareLoss, freezeOne, loseOne, type Story, takeOver, trainAndSave } from './story.ts';

const SEED = 20_260;
const EXPORTED = 'model.safetensors';

async function tell(options: DemoOptions): Promise<void> {
  const { directory, sizeBytes, checkpointSteps, uri } = options;
  const began = performance.now();
  await using reader = await openCheckpointManager(uri);
  const setup = { uri, shape: shapeOf(SEED, sizeBytes), checkpointSteps };
  const story: Story = { setup, reader, rows: [], evaluations: new Map() };
  console.log(
    `A training job saves a model of ${size(sizeBytes)} to ${uri}\n` +
      'All of it is real: processes learn, are killed and frozen, and what has a ✓ was checked.',
  );

  const before = await trainAndSave(story);
  await loseOne(story, before);
  await bringBack(story, before);
  const zombie = await freezeOne(story, before);
  const after = await takeOver(story, zombie);
  compareLoss(story, before, after);
  await exportBest(story, join(directory, EXPORTED));
  await after.close();

  heading(`What happened, in ${seconds(performance.now() - began)}`);
  table(['version', 'servers', 'size', 'loss', 'AUC', 'outcome'], story.rows);

  const { storeIsIn } = options;
  if (storeIsIn === 'directory' || storeIsIn === 'uri') sayWhereToLook(options);
  else sayWhatIsGone(storeIsIn, options);
}

function sayWhatIsGone(server: ServerName, { directory }: DemoOptions): void {
  const { title, ownUri } = SERVERS[server];
  heading(`The ${title} of this demo ends with it`);
  say(`--uri ${ownUri} tells the same on a store of yours, which keeps the run.`);
  say(`rm -r ${directory}   # removes the exported model`);
}

function sayWhereToLook({ uri, directory, storeIsIn }: DemoOptions): void {
  // A URI with settings contains characters that a shell interprets.
  const run = /^[\w:/.%~+@-]+$/.test(uri) ? uri : `'${uri}'`;
  heading('The store is still there; look at it');
  say(`./bin/holdfast list ${run}`);
  say(`./bin/holdfast show ${run}`);
  say(`./bin/holdfast elasticdl inspect ${run}`);
  say(`./bin/holdfast log ${run}`);
  say(`./bin/holdfast elasticdl best ${run} --metric auc`);
  const what = storeIsIn === 'directory' ? 'it, and the exported model' : 'the exported model; the run stays';
  say(`rm -r ${directory}   # removes ${what}`);
}

function explain(error: unknown): string {
  if (error instanceof DemoFailure) return error.message;
  const { message, code, advice } = toCheckpointError(error);
  return code === 'Unexpected' ? message : `${message} (${code})\n${advice}`;
}

/** Ends every process of the demo together with the demo. */
function endTogether(): void {
  process.once('exit', killAll);
  for (const [signal, exitCode] of [
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.once(signal, () => {
      console.error('\nstopped, and its processes with it; what it wrote is left where the first line says');
      process.exit(exitCode);
    });
  }
}

async function main(args: readonly string[]): Promise<void> {
  const wish = await readWish(args);
  switch (wish.type) {
    case 'help':
      return console.log(USAGE);
    case 'torture others':
      process.exitCode = await tortureOthers();
      return;
    case 'start server':
      process.exitCode = await runOnServer(wish.name, args);
      return;
    case 'demo':
      endTogether();
      return tell(wish.options);
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(`\nthe demo failed: ${explain(error)}`);
  process.exit(1);
}
