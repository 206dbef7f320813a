/**
 * The chapters of the demo in their order. Each changes a training job and checks how Holdfast
 * reacts.
 */

import type { CheckpointManager } from '@holdfast/core';
import { lossChart } from './chart.ts';
import { expectThat } from './checks.ts';
import type { Evaluation } from './evaluation.ts';
import { Job, type JobSetup, type Server } from './job.ts';
import { chapter, found, measure, quote, say, size } from './screen.ts';

export interface Story {
  /** Shared by both lives of the job. */
  readonly setup: Pick<JobSetup, 'uri' | 'shape' | 'checkpointSteps'>;
  /** Observes the run from outside, as any machine could. It never writes. */
  readonly reader: CheckpointManager;
  /** Rows of the final table: version, servers, size, loss, AUC and the result. */
  readonly rows: string[][];
  /** The evaluation of each version on the servers that saved it. */
  readonly evaluations: Map<number, Evaluation>;
}

const SERVERS_AT_FIRST = 3;
const SERVERS_THEN = 2;

export async function trainAndSave(story: Story): Promise<Job> {
  const { checkpointSteps: steps, shape } = story.setup;
  const [users, items, hours] = shape.rowCounts.map((count) => count.toLocaleString('en'));
  chapter(
    'Three parameter servers and two trainers learn who clicks on what',
    `The tables have rows for ${users} users, ${items} items and ${hours} hours, divided among the servers`,
    'by id; beside them are dense variables, divided by name. Trainers pull what a batch needs and',
    `push gradients; nobody waits for anybody. At every ${steps} updates each server saves its share.`,
    'Server 0 is the last: it saves how good that model is, too, on clicks that nobody trains on.',
  );
  const job = await Job.start({
    ...story.setup,
    attempt: 1,
    serverCount: SERVERS_AT_FIRST,
    pauses: { 0: 5 * steps, 1: 4 * steps },
  });
  const untrained = await job.evaluate(0);
  say(`before the first update: ${inWords(untrained)}, which is what guessing gives`);
  story.rows.push(['0', '0 1 2', '–', ...measures(untrained), 'before the first update']);
  await trainTo(story, job, [steps, 2 * steps, 3 * steps], 'committed');
  return job;
}

export async function loseOne(story: Story, job: Job): Promise<void> {
  const steps = story.setup.checkpointSteps;
  const version = 4 * steps;
  const victim = job.server(1);
  chapter(
    `Parameter server 1 is killed in the middle of saving version ${version}`,
    `SIGKILL: process ${victim.pid} is gone at once, in the middle of a file. Servers 0 and 2 live on.`,
  );
  await Promise.all([job.train(version), job.halfway(1), job.delivered(version, [0, 2])]);
  await job.kill(victim);
  await expectLatest(story, 3 * steps);
  const seen = await story.reader.get(version);
  expectThat(seen === null, `version ${version} can be seen though it was never committed`);
  found(`nothing of version ${version} can be seen; the latest is still ${3 * steps}`);
  story.rows.push([`${version}`, '1', '–', '–', '–', 'killed in the middle: nothing is seen']);
}

export async function bringBack(story: Story, job: Job): Promise<void> {
  const steps = story.setup.checkpointSteps;
  chapter(
    'Parameter server 1 is started again, and the job goes on',
    `It restores its share of version ${3 * steps}, the latest: what it has learned since is lost. The others`,
    'keep what they have in memory.',
    `Each server counts its own updates: server 1 comes to ${4 * steps} when the others come to ${5 * steps}. Then`,
    `version ${4 * steps} is complete, with the shares that they have put aside for it.`,
  );
  const restored = await job.restart(1);
  expectThat(restored === 3 * steps, `server 1 restored version ${restored}, expected ${3 * steps}`);
  const evaluation = await expectAsRecorded(story, job, restored);
  found(`version ${restored}, of which the others have kept copies: ${inWords(evaluation)} again`);
  await trainTo(story, job, [4 * steps], 'committed, with the restarted server 1', 5 * steps);
}

/** Freezes one server and resolves to it. */
export async function freezeOne(story: Story, job: Job): Promise<Server> {
  const steps = story.setup.checkpointSteps;
  const version = 5 * steps;
  const frozen = job.server(0);
  chapter(
    `Server 0 freezes in the middle of version ${version}, and the whole job is lost`,
    `SIGSTOP: process ${frozen.pid} lives on, in the middle of a file, and notices nothing.`,
    'SIGKILL: all the others are gone, servers and trainers alike.',
  );
  await Promise.all([job.train(6 * steps), job.halfway(0), job.delivered(version, [1, 2])]);
  job.giveUp(frozen);
  frozen.freeze();
  await Promise.all(job.processes.filter((each) => each !== frozen).map((each) => job.kill(each)));
  await expectLatest(story, 4 * steps);
  found(
    `version ${version} lacks nothing but the rest of server 0's share; the latest is still ${4 * steps}`,
  );
  return frozen;
}

export async function takeOver(story: Story, zombie: Server): Promise<Job> {
  const steps = story.setup.checkpointSteps;
  const version = 4 * steps;
  chapter(
    'The job starts anew, with two parameter servers instead of three',
    'They join as a second attempt, which takes the run over. Each finds in the three shares what is',
    'its own now. Meanwhile SIGCONT: the zombie wakes up, sends the rest of its share, and tries to',
    `commit version ${5 * steps} of the life before.`,
  );
  const job = await Job.start({ ...story.setup, attempt: 2, serverCount: SERVERS_THEN });
  expectThat(job.version === version, `version ${job.version} was restored, expected ${version}`);
  const rowCount = story.setup.shape.rowCounts.reduce((sum, count) => sum + count, 0);
  expectThat(job.rowCount === rowCount, `${job.rowCount} rows were restored, expected ${rowCount}`);
  found(
    `version ${version}: both servers have restored their shares, ${rowCount.toLocaleString('en')} rows together`,
  );

  const evaluation = await expectAsRecorded(story, job, version);
  found(`${inWords(evaluation)}: to the last bit what was recorded when three servers saved it`);
  story.rows.push([
    `${version}`,
    '0 1',
    '–',
    ...measures(evaluation),
    'restored by two servers instead of three',
  ]);

  const refusal = zombie.next('failed');
  zombie.thaw();
  zombie.send({ type: 'go on' });
  const outcome = 'committed by the second attempt';
  await trainTo(story, job, [5 * steps], outcome);
  const refused = await refusal;
  expectThat(refused?.code === 'Fenced', `the zombie was to be fenced: ${refused?.code} ${refused?.message}`);
  quote('the zombie', `${refused.message} (${refused.code})`);
  story.rows.push([`${5 * steps}`, '0 (zombie)', '–', '–', '–', 'fenced']);
  await zombie.kill();
  await trainTo(story, job, [6 * steps, 7 * steps], outcome);
  return job;
}

export function compareLoss(story: Story, before: Job, after: Job): void {
  const resumedAt = 4 * story.setup.checkpointSteps;
  chapter(
    'The loss goes on from where it was',
    `Of both lives, on the clicks they learn from. │ is update ${resumedAt}, where the second (●) resumed.`,
  );
  for (const line of lossChart([before.losses, after.losses], resumedAt)) say(line);
  const window = story.setup.checkpointSteps;
  const [untrained, first, second] = [
    meanLoss(before, 0, 2),
    meanLoss(before, resumedAt, resumedAt + window),
    meanLoss(after, resumedAt, resumedAt + window),
  ];
  expectThat(
    Math.abs(second - first) < 0.25 * (untrained - first),
    `the loss does not go on: ${second} after the restart, ${first} before it, ${untrained} at the very beginning`,
  );
  found(
    `updates ${resumedAt} to ${resumedAt + window}: mean loss ${measure(second)}, ` +
      `${measure(first)} in the life before, ${measure(untrained)} at the very beginning`,
  );
}

function meanLoss({ losses }: Job, from: number, until: number): number {
  const points = losses.filter(({ update }) => update >= from && update < until);
  return points.reduce((sum, { loss }) => sum + loss, 0) / points.length;
}

/**
 * Trains up to the last of `versions` or up to `updates`, and waits for the commit of each version.
 */
async function trainTo(
  story: Story,
  job: Job,
  versions: readonly number[],
  outcome: string,
  updates = versions.at(-1) ?? 0,
): Promise<void> {
  const trained = job.train(updates);
  trained.catch(() => undefined); // `committed` rejects with the same failure
  const servers = job.servers.map((_, index) => index).join(' ');
  for (const version of versions) {
    const evaluation = await job.committed(version);
    const { sizeBytes } = await summaryOf(story, version);
    story.evaluations.set(version, evaluation);
    found(`version ${version}: ${size(sizeBytes)} committed, ${inWords(evaluation)}`);
    story.rows.push([`${version}`, servers, size(sizeBytes), ...measures(evaluation), outcome]);
  }
  await trained;
  await expectLatest(story, versions.at(-1) ?? 0);
}

async function expectLatest({ reader }: Story, version: number): Promise<void> {
  const latest = (await reader.latest())?.version;
  expectThat(latest === BigInt(version), `the latest version is ${latest}, expected ${version}`);
}

/**
 * Checks that the restored model gives exactly the evaluation of the saved one, to the last bit.
 */
async function expectAsRecorded(story: Story, job: Job, version: number): Promise<Evaluation> {
  const evaluation = await job.evaluate(version);
  const { metrics } = await summaryOf(story, version);
  expectThat(
    evaluation.loss === metrics['loss'] && evaluation.auc === metrics['auc'],
    `version ${version}, restored, has ${inWords(evaluation)}; recorded was ${JSON.stringify(metrics)}`,
  );
  return evaluation;
}

async function summaryOf({ reader }: Story, version: number) {
  const summary = (await reader.get(version))?.summary;
  expectThat(summary !== null && summary !== undefined, `version ${version} was committed, and is not there`);
  return summary;
}

function measures({ loss, auc }: Evaluation): [string, string] {
  return [measure(loss), measure(auc)];
}

function inWords({ loss, auc }: Evaluation): string {
  return `loss ${measure(loss)}, AUC ${measure(auc)}`;
}
