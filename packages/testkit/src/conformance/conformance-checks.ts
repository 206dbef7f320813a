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

/** One of the suite. Group and name are kept: programs know it by them. */
export interface ConformanceCheck extends Check {
  /** One word; the checks of a group stand together. */
  readonly group: string;
}

/** Every promise of `ObjectStore`, as a function that throws when a store breaks it. */
export const conformanceChecks: readonly ConformanceCheck[] = Object.entries(GROUPS).flatMap(
  ([group, checks]) => checks.map((check) => ({ ...check, group })),
);
