/**
 * ElasticDL's checkpoints: reads every form, writes two, and reshards to any number of parameter
 * servers.
 */

export { type DecodeOptions, decodeShard } from './codec/decode.ts';
export { type EncodedShard, encodeShard } from './codec/encode.ts';
export {
  type ContentPiece,
  type FileOutline,
  type FilePiece,
  type LiteralPiece,
  outlineFile,
} from './codec/outline-file.ts';
export { type IdChunk, type ReadIdsOptions, readIds } from './codec/read-ids.ts';
export { type LayoutOptions, readShardLayout } from './codec/read-layout.ts';
export { itemBytes } from './dtype.ts';
export type { ExportDocument, ExportedTable, ExportedWriter } from './export/export-plan.ts';
export { type ExportOptions, type ExportResult, exportSafetensors } from './export/export-safetensors.ts';
export type { ExportedTensor, SafetensorsDtype } from './export/exported-tensor.ts';
export type { RowCount, TableOptions } from './export/table-storage.ts';
export { bucketsOf, intToId, type ScatteredRows, scatterEmbeddingVector, stringToId } from './hash.ts';
export type * from './layout.ts';
export type * from './model.ts';
export { checkShards } from './open/check.ts';
export { type CheckpointShardsOptions, openCheckpointShards } from './open/checkpoint.ts';
export { directoryPlace, openDirectoryShards } from './open/directory.ts';
export { type ExportPlainOptions, exportPlain, type PlainFile } from './open/export-plain.ts';
export {
  type ImportAllOptions,
  type ImportAllResult,
  type ImportOptions,
  type ImportResult,
  importAll,
  importCheckpoint,
} from './open/import.ts';
export { type LatestOptions, latestValid } from './open/latest.ts';
export { shardsInMemory } from './open/memory.ts';
export {
  extensionOf,
  type Naming,
  parseShardFile,
  parseVersionFolder,
  type ShardExtension,
  type ShardName,
  shardFile,
  versionFolder,
} from './open/names.ts';
export {
  type FoundVersion,
  findVersions,
  type OpenFileOptions,
  type OpenOptions,
  openFound,
  openShardFile,
  openShards,
  openVersion,
  type Place,
} from './open/place.ts';
export { openPrefixShards, prefixPlace } from './open/prefix.ts';
export type { CheckOptions, ReadingOptions } from './reading-options.ts';
export { bestCheckpoint, rankCheckpoints } from './saver/best-checkpoint.ts';
export {
  CheckpointSaver,
  type CheckpointSaverOptions,
  type ShardSaveOptions,
} from './saver/checkpoint-saver.ts';
export { EarlyStopper, type Evaluation, type StopFunction, type StopRule } from './saver/early-stopper.ts';
export type { RankedMetric } from './saver/metrics.ts';
export { FileSink } from './scatter/file-sink.ts';
export {
  type MergedModel,
  type MergedTable,
  mergeLayouts,
  type NamedLayout,
  type Part,
} from './scatter/merge-layouts.ts';
export {
  type RepartitionOptions,
  type RepartitionResult,
  repartition,
} from './scatter/repartition.ts';
export { type RestoreShardOptions, restoreShard } from './scatter/restore-shard.ts';
export { type ScatterOptions, scatterModel } from './scatter/scatter-model.ts';
export { findSuspicions, type SuspicionOptions } from './scatter/suspicions.ts';
export type * from './shard-set.ts';
export type * from './sink.ts';
