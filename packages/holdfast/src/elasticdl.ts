/** Checkpoints of ElasticDL: read, reshard, export. */

export * from '@holdfast/elasticdl';
