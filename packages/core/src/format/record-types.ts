/**
 * The records of a run, under the names that the engine uses. Only `format/` knows that they are
 * generated.
 */

import type {
  CatalogEntry,
  CatalogPage,
  Claim,
  FileList,
  Grant,
  Manifest,
  ReadLease,
  Receipt,
  Run,
  Upload,
} from '@holdfast/wire';

export type {
  CatalogEntry,
  CatalogPage,
  Checkpoint as CatalogCheckpoint,
  CheckpointId,
  CheckpointState,
  Claim,
  Directory as DirectoryRecord,
  File as FileRecord,
  FileList,
  FileListRef,
  Format,
  Grant,
  KeepBest as KeepBestRecord,
  Manifest,
  PageRef,
  Policy,
  ReadLease,
  Receipt,
  ReceiptRef,
  Removed,
  RemovedFloor,
  Run,
  State,
  Taken,
  Transaction,
  Upload as UploadRecord,
  WriterShare,
} from '@holdfast/wire';

/** The content of each kind of record. */
export interface RecordTypes {
  run: Run;
  'catalog-entry': CatalogEntry;
  'catalog-page': CatalogPage;
  claim: Claim;
  receipt: Receipt;
  'file-list': FileList;
  manifest: Manifest;
  'read-lease': ReadLease;
  upload: Upload;
  grant: Grant;
}

export type RecordKind = keyof RecordTypes;

/** The name in proto/ of each kind's message. */
export const MESSAGE_OF_KIND: Readonly<Record<RecordKind, string>> = {
  run: 'Run',
  'catalog-entry': 'CatalogEntry',
  'catalog-page': 'CatalogPage',
  claim: 'Claim',
  receipt: 'Receipt',
  'file-list': 'FileList',
  manifest: 'Manifest',
  'read-lease': 'ReadLease',
  upload: 'Upload',
  grant: 'Grant',
};
