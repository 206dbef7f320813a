/** Reads and writes the records of a run, one at a time. */

export {
  type ClaimPlace,
  claim,
  highestOfEach,
  type ListedClaim,
  listClaims,
  ownClaim,
  readClaim,
} from './claims.ts';
export { waitAtMost, withDeadline, withLastLook } from './deadline.ts';
export { manifestProblem, readDetails, readManifest, summaryOf } from './manifest.ts';
export type { RunParts } from './parts.ts';
export { readAhead } from './read-ahead.ts';
export {
  findReceipt,
  ListedSizes,
  listReceipts,
  listsReceipt,
  type OwnReceipt,
  readAllReceipts,
  readReceipt,
} from './receipts.ts';
export { machineTimeMs, newId, type RecordIo } from './record-io.ts';
export {
  backOff,
  createAsSent,
  createRecord,
  deleteForTidiness,
  endOf,
  getByDigest,
  getOrNull,
  isUnanswered,
  isUnreadable,
  type TidinessLimits,
  unknownRecord,
} from './records.ts';
export {
  assertOrdered,
  findFile,
  readFiles,
  readLists,
  readNamedSlices,
  readSaid,
  readSlices,
  type Said,
  type Slice,
} from './slices.ts';
export { type CommitToken, type DecisionToken, type RecordToken, readToken, writeToken } from './tokens.ts';
export { mayGoOnWith, recordingOf, type UploadOwner, UploadRecords } from './upload-records.ts';
