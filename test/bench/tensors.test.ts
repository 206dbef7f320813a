import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openCheckpointManager } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { writeHollowModel } from './hollow-model.ts';
import { isMet } from './results.ts';
import { tensorsVerdicts } from './tensors.ts';

const MIB = 2 ** 20;

test('a hollow model is a checkpoint whose bytes match their records', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-hollow-'));
  try {
    const uri = await writeHollowModel(join(directory, 'run'), {
      files: 2,
      fileBytes: 20 * MIB,
      tensorsInFile: 3,
    });
    await using manager = await openCheckpointManager(uri);
    const { files } = await manager.admin.inspect();
    expect(files.map(({ tensors }) => tensors?.length)).toEqual([3, 3]);
    const to = join(directory, 'model');
    const { tensorCount, sizeBytes } = await manager.admin.exportTensors({ to, layout: 'distcp' });
    expect([tensorCount, (await stat(join(to, '__0_0.distcp'))).size]).toEqual([
      6,
      sizeBytes - (await stat(join(to, '.metadata'))).size,
    ]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('inspect has to be fast at the median, and each export small', () => {
  const cost = (wallMs: number, peakMib: number) => {
    return { wallMs, userMs: 1, systemMs: 1, peakRssBytes: peakMib * MIB };
  };
  const verdicts = tensorsVerdicts({
    conditions: '',
    inspect: [cost(900, 900), cost(950, 900), cost(2000, 900)],
    exports: { safetensors: [cost(9000, 200), cost(9000, 512)], distcp: [cost(9000, 513), cost(9000, 200)] },
  });
  expect(verdicts.map((verdict) => [verdict.what, isMet(verdict)])).toEqual([
    ['inspect, ms', true],
    ['peak RSS of export to safetensors, MiB', true],
    ['peak RSS of export to distcp, MiB', false],
  ]);
});
