/** The chapters of the demo, in their order. Each does something to a training job and checks what Holdfast makes of it. */

import type { CheckpointManager } from '@holdfast/core';
import { expectSameBytes, expectThat } from './checks.ts';
import { inWords, type Saved, type SaveOutcome, saveAll, startJob, trainAll, Writer } from './job.ts';
import type { Model } from './model.ts';
import { chapter, found, quote, type Row, seconds, size } from './screen.ts';

export interface Story {
  readonly uri: string;
  readonly model: Model;
  /** Looks at the run from outside, as any machine could; it never writes. */
  readonly reader: CheckpointManager;
  readonly rows: Row[];
}

const SHORT_WAIT_MS = 2000;

export async function saveTwice(story: Story, writers: readonly Writer[]): Promise<void> {
  chapter(
    'Four processes save the model, twice',
    'Each holds a quarter of the layers and saves them on its own; none of them leads.',
    'Once the last has delivered, one small object is created: from then on the whole version is there.',
  );
  for (const version of [100, 200]) {
    await trainAll(writers, version);
    const began = performance.now();
    const sizeBytes = totalBytes(await saveAll(writers, version));
    const durationMs = performance.now() - began;
    story.rows.push({ version, writers: '0 1 2 3', sizeBytes, durationMs, outcome: 'committed' });
    found(`version ${version}: ${size(sizeBytes)} committed in ${seconds(durationMs)}`);
    await expectLatest(story, version);
  }
}

export async function loseOne(story: Story, writers: readonly Writer[]): Promise<void> {
  const victim = writerOf(writers, 2);
  const survivors = writers.filter((writer) => writer !== victim);
  chapter(
    'Writer 2 is killed in the middle of its third save',
    `SIGKILL: process ${victim.pid} is gone at once, in the middle of a file.`,
    `The others deliver, wait ${seconds(SHORT_WAIT_MS)} for it, and say what they know.`,
  );
  await trainAll(writers, 300);
  const began = performance.now();
  const waiting = survivors.map((writer) => writer.save(300, { timeoutMs: SHORT_WAIT_MS }));
  const interrupted = victim.save(300, { pauseHalfway: true });
  await victim.halfway();
  await victim.kill();
  expectThat((await interrupted).type === 'died', 'writer 2 was to die in the middle of its save');
  const refusals = await Promise.all(waiting);
  const durationMs = performance.now() - began;
  for (const refusal of refusals) {
    expectFailure(refusal, 'Incomplete');
    expectThat(refusal.message.includes('writer 2 '), `who is missing is not said: ${refusal.message}`);
  }
  const [first] = refusals;
  if (first !== undefined) quote('writer 0', inWords(first));
  await expectLatest(story, 200);
  expectThat((await story.reader.get(300)) === null, 'version 300 can be seen though it was never committed');
  found('nothing of version 300 can be seen; the latest is still 200');
  const outcome = 'refused: writer 2 is missing';
  story.rows.push({ version: 300, writers: '0 1 3', sizeBytes: 0, durationMs, outcome });
}

export async function bringBack(story: Story, writers: Writer[]): Promise<void> {
  chapter(
    'Writer 2 is started again and finishes version 300',
    'It joins as the second life of writer 2; what its first life had sent does not count.',
    'The other three have delivered already, and send nothing again.',
  );
  const restarted = new Writer(writerOf(writers, 2).setup);
  writers[2] = restarted;
  await restarted.train(300);
  const began = performance.now();
  const sizeBytes = totalBytes(await saveAll([restarted], 300));
  const durationMs = performance.now() - began;
  await expectLatest(story, 300);
  found(`version 300: committed ${seconds(durationMs)} after writer 2 began to save`);
  const outcome = 'committed, with what 0 1 3 had delivered';
  story.rows.push({ version: 300, writers: '2', sizeBytes, durationMs, outcome });
}

export interface Zombie {
  readonly writer: Writer;
  /** What will have become of its save. */
  readonly ending: Promise<SaveOutcome>;
}

export async function freezeOne(story: Story, writers: readonly Writer[]): Promise<Zombie> {
  const frozen = writerOf(writers, 3);
  const others = writers.filter((writer) => writer !== frozen);
  chapter(
    'Writer 3 freezes in the middle of version 400, and the job is given up',
    `SIGSTOP: process ${frozen.pid} lives on, in the middle of a file, and notices nothing.`,
    'The others have delivered and do not wait. They are killed: the job is to start anew.',
  );
  await trainAll(writers, 400);
  const delivering = saveAll(others, 400, { noWait: true });
  const ending = frozen.save(400, { pauseHalfway: true });
  const [delivered] = await Promise.all([delivering, frozen.halfway()]);
  frozen.freeze();
  // Whoever came last saw all that the others had delivered.
  const lacking = delivered.map(({ missingWriters }) => missingWriters.join());
  expectThat(lacking.includes('3'), `version 400 was to lack writer 3 alone: ${lacking.join(' | ')}`);
  await expectLatest(story, 300);
  found('version 400 lacks nothing but writer 3; the latest is still 300');
  await Promise.all(others.map((writer) => writer.kill()));
  return { writer: frozen, ending };
}

export async function takeOver(story: Story, zombie: Zombie): Promise<void> {
  chapter(
    'A second attempt takes the run over, and the zombie wakes up',
    'Four new processes with a new attempt id join, which takes the run over, and load version 300.',
    'They train on and save their own 400. Meanwhile SIGCONT: the zombie sends the rest of its bytes',
    'and tries to commit the old 400, which would then be complete.',
  );
  const writers = startJob({ uri: story.uri, attempt: 2, model: story.model });
  for (const { version, isSame } of await Promise.all(writers.map((writer) => writer.load()))) {
    expectThat(version === 300, `the second attempt found version ${version}, expected 300`);
    expectThat(isSame, 'what the second attempt loaded is not what the first had saved');
  }
  found('version 300: loaded by the second attempt, the same bytes that the first had in memory');
  await trainAll(writers, 400);
  const began = performance.now();
  const saving = saveAll(writers, 400);
  zombie.writer.thaw();
  const sizeBytes = totalBytes(await saving);
  const durationMs = performance.now() - began;
  const fenced = await zombie.ending;
  expectFailure(fenced, 'Fenced');
  quote('the zombie', inWords(fenced));
  found(`version 400: ${size(sizeBytes)} committed by the second attempt in ${seconds(durationMs)}`);
  await expectLatest(story, 400);
  await Promise.all([zombie.writer, ...writers].map((writer) => writer.close()));
  story.rows.push(
    { version: 400, writers: '3 (zombie)', sizeBytes: 0, durationMs: 0, outcome: 'fenced' },
    { version: 400, writers: '0 1 2 3', sizeBytes, durationMs, outcome: 'committed by the second attempt' },
  );
}

export async function restoreNewest(story: Story, directory: string): Promise<void> {
  chapter(
    'The newest version is restored and compared',
    'Every byte is checked against its checksum on the way; the directory appears whole or not at all.',
    'Then each tensor is made again from the seed of the second attempt and compared byte for byte.',
  );
  const began = performance.now();
  const { version, sizeBytes } = await story.reader.restore({ to: directory });
  const durationMs = performance.now() - began;
  expectThat(version === 400n, `version ${version} was restored, expected 400`);
  const same = await expectSameBytes(directory, story.model, { version: 400, attempt: 2 });
  expectThat(same.sizeBytes === sizeBytes, `${sizeBytes} bytes were restored, expected ${same.sizeBytes}`);
  found(
    `version 400: ${same.fileCount} files restored in ${seconds(durationMs)}, all ${sizeBytes.toLocaleString('en')} bytes the same`,
  );
  const outcome = 'restored, byte for byte';
  story.rows.push({ version: 400, writers: '–', sizeBytes, durationMs, outcome });
}

async function expectLatest({ reader }: Story, version: number): Promise<void> {
  const latest = (await reader.latest())?.version;
  expectThat(latest === BigInt(version), `the latest version is ${latest}, expected ${version}`);
}

function expectFailure(
  outcome: SaveOutcome,
  code: string,
): asserts outcome is Extract<SaveOutcome, { type: 'failed' }> {
  expectThat(
    outcome.type === 'failed' && outcome.code === code,
    `expected ${code}, found: ${inWords(outcome)}`,
  );
}

function totalBytes(saves: readonly Saved[]): number {
  return saves.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

function writerOf(writers: readonly Writer[], index: number): Writer {
  const writer = writers[index];
  expectThat(writer !== undefined, `there is no writer ${index}`);
  return writer;
}
