/** Checkpoints of torch.distributed.checkpoint, with real PyTorch: `python/tests/torch`. */

import { beforeAll, expect, test, vi } from 'vitest';
import { longCount } from '../cloud/config.ts';
import { PACKED } from '../e2e/packed-command.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { runProgram } from './run-python.ts';
import { TORCH_TITLE, torchProgram } from './torch-program.ts';
import { PYTHON_ROOT, RUNNER, testModules } from './unittest-runner.ts';

/** They take less than two minutes on two cores. Each incarnation that is played takes a second. */
const TIMEOUT_MS = 600_000 + 10_000 * longCount(process.env);

const WHY_NO_TORCH = await whyNone(TORCH_TITLE, torchProgram, async () => undefined);

const suite = {
  suite: 'torch',
  name: 'holdfast.torch',
  whyNone: WHY_NO_TORCH,
  open: async () => ({ stop: async () => undefined }),
} as const;

describeOnServer(suite, () => {
  beforeAll(() => {
    vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
    return () => vi.unstubAllEnvs();
  });

  // Files in one process share the import of PyTorch.
  test('with real PyTorch', { timeout: TIMEOUT_MS }, async () => {
    const args = ['-c', RUNNER, PYTHON_ROOT, testModules('torch').join(','), 'without skips'];
    const printed = await runProgram(await torchProgram(), args, { timeoutMs: TIMEOUT_MS });
    expect(Number(printed)).toBeGreaterThan(40);
  });
});
