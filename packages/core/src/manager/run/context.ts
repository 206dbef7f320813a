/** One run, as the calls of one manager see it. */

import { CheckpointError } from '../../contract/errors.ts';
import type { LocalFiles } from '../../contract/files.ts';
import type { ObjectStore } from '../../contract/object-store.ts';
import type { Policy } from '../../format/index.ts';
import type { Catalog, Head } from '../catalog/index.ts';
import type { RunParts } from '../records/index.ts';

export type BeforeFirstSave = (
  records: Pick<ObjectStore, 'list' | 'listDirectories'>,
  signal: AbortSignal,
) => Promise<void>;

export interface RunFacts {
  readonly runId: string;
  readonly policy: Policy;
}

/** What one manager knows about the retention rules besides the catalog. */
export interface KnownRules {
  /** The rules that the manager was opened with, until they are set for the run. */
  brought: Policy | undefined;
  /** What run.json says, which never changes; `null`: it is missing; `undefined`: not read yet. */
  written: RunFacts | null | undefined;
}

/** Applies the retention rules after commits of this process. */
export interface AfterCommit {
  /** Notes that a commit of this process became entry `head`. */
  note(run: RunContext, head: Head): void;
  /** Starts the work if a commit was noted. Returns at once. */
  start(): void;
  /** Ends the work within seconds. Never throws. */
  close(run: RunContext): Promise<void>;
}

/** A file that a caller reads. */
export interface OpenedFile {
  /** Stops reads in progress. Never rejects. */
  end(why: CheckpointError): Promise<void>;
}

export interface RunContext extends RunParts {
  readonly catalog: Catalog;
  readonly rules: KnownRules;
  readonly retention: AfterCommit;
  /** They are closed before the manager. */
  readonly openFiles: Set<OpenedFile>;
  /** Open output streams of all its checkpoints. Each holds a share of the memory. */
  readonly openOutputs: Set<object>;
  /** See `CheckpointManagerOptions`. */
  readonly beforeFirstSave: BeforeFirstSave | undefined;
}

/** `InvalidArgument`: the manager was opened without local files. */
export function localFiles(run: Pick<RunContext, 'files'>): LocalFiles {
  if (run.files) return run.files;
  throw new CheckpointError(
    'InvalidArgument',
    'this manager was opened without local files: paths cannot be used',
  );
}
