import { CheckpointError } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { OpenedSources } from './open-sources.ts';
import { SaveJob } from './save-job.ts';

const FACTS = {
  saveId: '0',
  writerId: '0',
  version: 1n,
  timeoutMs: undefined,
  inOrder: undefined,
  begunWith: '',
};

test('a save that has ended holds neither its files nor its metadata: it is told about for long', async () => {
  const sources = new OpenedSources({ stage: '/none', roots: [], owners: [], life: '' });
  const hooks = {
    onChange: () => undefined,
    beforeEnd: async () => undefined,
    onDelivered: async () => undefined,
  };
  const meta = { metadata: { by: 'x'.repeat(1000) } };
  const files = [{ name: 'a', source: { path: '/none/a' } }];
  const job = new SaveJob(FACTS, { files, directories: ['d'], sources, meta, hooks });
  await job.fail(new CheckpointError('Denied', 'no'));
  const held = [job.state, job.files, job.directories, job.meta, sources.found()];
  expect(held).toEqual(['failed', [], [], {}, []]);
});
