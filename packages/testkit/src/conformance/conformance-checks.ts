import { abortChecks } from './abort-checks.ts';
import { capabilityChecks } from './capability-checks.ts';
import type { Check } from './check.ts';
import { createChecks } from './create-checks.ts';
import { deleteChecks } from './delete-checks.ts';
import { keyChecks } from './key-checks.ts';
import { listChecks } from './list-checks.ts';
import { openUploadChecks } from './open-upload-checks.ts';
import { raceChecks } from './race-checks.ts';
import { readChecks } from './read-checks.ts';
import { resumeChecks } from './resume-checks.ts';
import { uploadChecks } from './upload-checks.ts';

const GROUPS: Readonly<Record<string, readonly Check[]>> = {
  capabilities: capabilityChecks,
  keys: keyChecks,
  create: createChecks,
  read: readChecks,
  list: listChecks,
  delete: deleteChecks,
  upload: uploadChecks,
  resume: [...resumeChecks, ...openUploadChecks],
  signals: abortChecks,
  races: raceChecks,
};

/** A check of the suite. Group and name are stable: programs identify checks by them. */
export interface ConformanceCheck extends Check {
  /** One word. Checks of a group are adjacent. */
  readonly group: string;
}

/** The full contract of `ObjectStore`, as functions that throw if a store breaks it. */
export const conformanceChecks: readonly ConformanceCheck[] = Object.entries(GROUPS).flatMap(
  ([group, checks]) => checks.map((check) => ({ ...check, group })),
);
