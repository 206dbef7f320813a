/**
 * Reads what a job's launcher tells each of its processes. Only clear cases are recognised:
 * - torchrun and all launchers with its variable names: `RANK` of `WORLD_SIZE`.
 * - Slurm: `SLURM_PROCID` of `SLURM_NTASKS`. The attempt is the job with its restart count and its
 *   step, because each `srun` of a job starts the program anew. A script that calls no `srun` is in
 *   no step.
 *
 * torchrun's run id and restart count cannot identify an attempt: after a failure the count may
 * differ between nodes. Under torchrun, Slurm's job cannot either, because torchrun restarts its
 * workers within one Slurm job.
 */

import { CheckpointError, type WriterPosition } from '@holdfast/core/contract';
import { checked } from './option.ts';
import type { Environment, Sourced } from './sourced.ts';
import { BadValue, checkedWriter } from './values.ts';

export function underTorchrun(env: Environment): boolean {
  return Boolean(env['TORCHELASTIC_RUN_ID']);
}

/**
 * Writer index and count; `null` without a launcher. `InvalidConfig` names the variables if they
 * contradict each other.
 */
export function launcherWriter(env: Environment): Sourced<WriterPosition> | null {
  return writerFrom(env, 'RANK', 'WORLD_SIZE') ?? writerFrom(env, 'SLURM_PROCID', 'SLURM_NTASKS');
}

function writerFrom(env: Environment, indexName: string, countName: string): Sourced<WriterPosition> | null {
  const index = env[indexName];
  const count = env[countName];
  // A Slurm script that no `srun` has started has only the index 0.
  if (!index || (!count && /^0*$/.test(index))) return null;
  const source = `${indexName} and ${countName}`;
  // As writer 0 of 1, each rank would commit its share as a complete checkpoint.
  if (!count)
    throw new CheckpointError(
      'InvalidConfig',
      `${indexName} is set, and ${countName}, which says how many there are, is not`,
      { context: { advice: [`set ${countName}, or pass --writer I/N`] } },
    );
  const value = checked('InvalidConfig', source, () =>
    checkedWriter(wholeNumber(indexName, index), wholeNumber(countName, count)),
  );
  return { value, source };
}

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text))
    throw new BadValue(`${name} is "${text}", not a whole number; --writer I/N overrides it`);
  return Number(text);
}

/**
 * The id of this start of the job, the same in all its processes; `null` if the launcher has none.
 */
export function launcherAttempt(env: Environment): Sourced<string> | null {
  const job = env['SLURM_JOB_ID'];
  if (!job || underTorchrun(env)) return null;
  const restart = env['SLURM_RESTART_COUNT'];
  const step = env['SLURM_STEP_ID'];
  const names = [
    'SLURM_JOB_ID',
    ...(restart ? ['SLURM_RESTART_COUNT'] : []),
    ...(step ? ['SLURM_STEP_ID'] : []),
  ];
  const source = new Intl.ListFormat('en-GB').format(names);
  return { value: `slurm-${job}-${restart || '0'}${step ? `-${step}` : ''}`, source };
}
