/**
 * Random rounds of an agent and its trainers, as processes that are killed and frozen:
 *
 *   npm run chaos -- [--seed N] [--count C] [--lanes L] [--uri URI] [--history]
 *
 * Plays `C` rounds with the seeds from N on, `L` of them at a time. Prints a line for each round,
 * and the history of each that breaks a promise. `--uri`: where the runs lie, with credentials in
 * the environment; default: a local directory.
 */

import { parseArgs } from 'node:util';
import { pack } from '../../e2e/packed-command.ts';
import { pythonProgram } from '../../python/python-program.ts';
import { playRounds } from './rounds.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '1' },
    lanes: { type: 'string', default: '1' },
    uri: { type: 'string' },
    history: { type: 'boolean', default: false },
  },
});

await pack();
let failedCount = 0;
let versions = 0;
let told = 0;
const startedMs = performance.now();
await playRounds({
  ...{ firstSeed: Number(values.seed), count: Number(values.count), lanes: Number(values.lanes) },
  ...{ python: await pythonProgram(), uri: values.uri },
  onOutcome: ({ plan, breaches, history, ...outcome }) => {
    versions += outcome.versions;
    told += outcome.toldCount;
    if (breaches.length > 0) failedCount += 1;
    if (breaches.length > 0 || values.history) console.log(JSON.stringify(plan), `\n${history.join('\n')}`);
    for (const breach of breaches) console.log(`seed ${plan.seed}: ${breach}`);
    const faults = plan.faults.map(({ signal, target }) => `${signal} ${target}`).join(', ');
    const late = `latest call ${Math.round(outcome.latestMs)} ms past its limit`;
    console.log(
      `seed ${plan.seed}: ${breaches.length === 0 ? 'ok' : 'FAILED'}; ${faults}; ${outcome.versions} versions, told ${outcome.toldCount}; ${late}`,
    );
  },
});
const seconds = (performance.now() - startedMs) / 1000;
console.log(
  `${values.count} rounds from seed ${values.seed} in ${seconds.toFixed(1)} s: ${failedCount} failed; ${versions} versions were committed, ${told} times a rank was told so`,
);
process.exitCode = failedCount === 0 ? 0 : 1;
