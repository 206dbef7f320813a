/** `npm run demo`: runs the story, shows what came of it, and leaves nothing running. */

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { toCheckpointError } from '@holdfast/core';
import { openCheckpointManager } from '@holdfast/stores';
import { DemoFailure } from './checks.ts';
import { killAll, startJob } from './job.ts';
import { WRITER_COUNT } from './model.ts';
import { type DemoOptions, readOptions, USAGE } from './options.ts';
import { heading, say, seconds, size, table } from './screen.ts';
import { bringBack, freezeOne, loseOne, restoreNewest, type Story, saveTwice, takeOver } from './story.ts';

async function tell({ directory, sizeBytes }: DemoOptions): Promise<void> {
  const began = performance.now();
  const uri = pathToFileURL(join(directory, 'run')).href;
  await using reader = await openCheckpointManager(uri);
  const story: Story = { uri, reader, model: { seed: 20_260, sizeBytes }, rows: [] };
  console.log(
    `A training job of ${WRITER_COUNT} processes saves a model of ${size(sizeBytes)} to ${uri}\n` +
      'All of it is real: processes are killed and frozen, and what has a ✓ was checked.',
  );

  const job = startJob({ uri, attempt: 1, model: story.model });
  await saveTwice(story, job);
  await loseOne(story, job);
  await bringBack(story, job);
  const zombie = await freezeOne(story, job);
  await takeOver(story, zombie);
  await restoreNewest(story, join(directory, 'restored'));

  heading(`What happened, in ${seconds(performance.now() - began)}`);
  table(story.rows);

  heading('The store is still there; look at it');
  say(`./bin/holdfast list ${uri}`);
  say(`./bin/holdfast show ${uri}`);
  say(`./bin/holdfast log ${uri}`);
  say(`./bin/holdfast restore ${uri} ${join(directory, 'again')} --version 200`);
  say(`rm -r ${directory}   # removes it, and the restored copy`);
}

function explain(error: unknown): string {
  if (error instanceof DemoFailure) return error.message;
  const { message, code, advice } = toCheckpointError(error);
  return code === 'Unexpected' ? message : `${message} (${code})\n${advice}`;
}

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

try {
  const options = await readOptions(process.argv.slice(2));
  if (options === null) console.log(USAGE);
  else await tell(options);
} catch (error) {
  console.error(`\nthe demo failed: ${explain(error)}`);
  process.exit(1);
}
