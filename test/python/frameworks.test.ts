/**
 * The plugins in real frameworks: PyTorch, transformers, accelerate, Lightning, fsspec, Ray,
 * Composer, DeepSpeed, Megatron-core.
 */

import { beforeAll, expect, test, vi } from 'vitest';
import { longCount } from '../cloud/config.ts';
import { PACKED } from '../e2e/packed-command.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { FRAMEWORKS_TITLE, frameworksProgram } from './frameworks-program.ts';
import { runProgram } from './run-python.ts';
import { PYTHON_ROOT, RUNNER, testModules } from './unittest-runner.ts';

/** Each takes a few minutes beside other tests. Each played incarnation takes a second. */
const TIMEOUT_MS = 1_200_000 + 10_000 * longCount(process.env);

const WHY_NO_FRAMEWORKS = await whyNone(FRAMEWORKS_TITLE, frameworksProgram, async () => undefined);

const suite = {
  suite: 'frameworks',
  name: 'plugins',
  whyNone: WHY_NO_FRAMEWORKS,
  open: async () => ({ stop: async () => undefined }),
} as const;

describeOnServer(suite, () => {
  beforeAll(() => {
    vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
    return () => vi.unstubAllEnvs();
  });

  // Files in one process share the import of their frameworks.
  test.each([
    ['torch', 'torch.distributed.checkpoint', 40],
    ['hf', 'transformers and accelerate', 7],
    ['frameworks', 'fsspec, Lightning, Ray Train, Composer, DeepSpeed and Megatron-core', 57],
  ])('%s: real %s', { timeout: TIMEOUT_MS }, async (directory, _frameworks, leastTests) => {
    const args = ['-c', RUNNER, PYTHON_ROOT, testModules(directory).join(','), 'without skips'];
    const printed = await runProgram(await frameworksProgram(), args, { timeoutMs: TIMEOUT_MS });
    expect(Number(printed)).toBeGreaterThan(leastTests);
  });
});
