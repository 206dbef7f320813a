/** Source of a setting of the command line. */

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * A value and its source as text: `--attempt`, `HOLDFAST_ATTEMPT`, `SLURM_JOB_ID and
 * SLURM_RESTART_COUNT`.
 */
export interface Sourced<T> {
  readonly value: T;
  readonly source: string;
}
