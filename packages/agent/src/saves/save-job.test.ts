import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { OpenedSources } from './open-sources.ts';
import { SaveJob } from './save-job.ts';

const HOOKS = {
  onChange: () => undefined,
  beforeEnd: async () => undefined,
  onDelivered: async () => undefined,
};
const FACTS = {
  saveId: '0',
  writerId: '0',
  version: 1n,
  timeoutMs: undefined,
  inOrder: undefined,
  begunWith: '',
};
const inStage = () => Promise.reject(new Error('no file is staged here'));
const RULES = { stage: '/none', inStage, roots: [], owners: [], life: '' };

test('a save that has ended holds neither its files nor its metadata: it is told about for long', async () => {
  const sources = new OpenedSources(RULES);
  const meta = { metadata: { by: 'x'.repeat(1000) } };
  const files = [{ name: 'a', source: { path: '/none/a' } }];
  const job = new SaveJob(FACTS, { files, directories: ['d'], sources, meta, hooks: HOOKS });
  await job.fail(new CheckpointError('Denied', 'no'));
  const held = [job.state, job.files, job.directories, job.meta, sources.found()];
  expect(held).toEqual(['failed', [], [], {}, []]);
});

test.each<[ErrorCode, string, string]>([
  ['NotFound', 'failed', 'SourceChanged: it was written to'],
  ['Fenced', 'fenced', 'Fenced: what the store says'],
  ['Conflict', 'failed', 'Conflict: what the store says'],
  [
    'Unavailable',
    'outcomeUnknown',
    'OutcomeUnknown: it was written to; it is not known whether an earlier agent had sent it before (what the store says): see whether the run has the version before you save it again',
  ],
])('a save that may have been sent, where the store answers %s, ends as %s', async (code, state, says) => {
  const sources = new OpenedSources(RULES);
  const job = new SaveJob(FACTS, { files: [], directories: [], sources, meta: {}, hooks: HOOKS });
  job.noteSent(new CheckpointError('SourceChanged', 'it was written to'));
  job.seal();
  const refused = () => Promise.reject(new CheckpointError(code, 'what the store says'));
  await job.run({ join: async () => undefined, commit: refused } as never);
  expect([job.state, `${job.error?.code}: ${job.error?.message}`]).toEqual([state, says]);
});
