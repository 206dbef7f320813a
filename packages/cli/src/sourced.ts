/** What a setting of the command line may come from. */

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * A value and where it came from, in words: `--attempt`, `HOLDFAST_ATTEMPT`, `SLURM_JOB_ID and
 * SLURM_RESTART_COUNT`.
 */
export interface Sourced<T> {
  readonly value: T;
  readonly source: string;
}
