/** ElasticDL's checkpoints: read in every form, written in two, divided anew among any number of parameter servers. */

export type * from './layout.ts';
export type * from './model.ts';
export type * from './shard-set.ts';
