/** ElasticDL's checkpoints: read in every form, written in two, divided anew among any number of parameter servers. */

export type * from './layout.ts';
export type * from './model.ts';
export { bestCheckpoint, rankCheckpoints } from './saver/best-checkpoint.ts';
export { EarlyStopper, type Evaluation, type StopFunction, type StopRule } from './saver/early-stopper.ts';
export type { RankedMetric } from './saver/metrics.ts';
export type * from './shard-set.ts';
