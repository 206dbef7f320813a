/** One run: its context, the decisions that change its catalog, and the records beside it. */

export {
  type AfterCommit,
  type BeforeFirstSave,
  localFiles,
  type OpenedFile,
  type RunContext,
} from './context.ts';
export { askRun, decide, readRun, unknownDecision, withDoneInErrors } from './decide.ts';
export { assertNotLost, assertNotOutlived, lostCatalog, NOTHING_TOLD } from './lost-catalog.ts';
export { assertOwnEntries } from './own-entries.ts';
export { plannedCheckpoint, plannedEvent, transferOptions } from './progress.ts';
export { EVERYTHING, listRun, SWEPT_PREFIXES, type WholeListing } from './run-listing.ts';
export { decodeRunRecord, readRunRecord, rememberRunRecord } from './run-record.ts';
export { bringRules, rulesInForce, setRules } from './run-rules.ts';
export { findRunsBelow, hasRunAt, type RunsBelow } from './runs-below.ts';
export { checkMeta, checkWriter } from './save-arguments.ts';
export { unlessRemoved, unlessRemovedMeanwhile } from './unless-removed.ts';
export { listVersions } from './version-listing.ts';
