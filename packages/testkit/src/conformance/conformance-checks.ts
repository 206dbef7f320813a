import { abortChecks } from './abort-checks.ts';
import { capabilityChecks } from './capability-checks.ts';
import type { Check } from './check.ts';
import { createChecks } from './create-checks.ts';
import { deleteChecks } from './delete-checks.ts';
import { keyChecks } from './key-checks.ts';
import { listChecks } from './list-checks.ts';
import { raceChecks } from './race-checks.ts';
import { readChecks } from './read-checks.ts';
import { resumeChecks } from './resume-checks.ts';
import { uploadChecks } from './upload-checks.ts';

/** Every promise of `ObjectStore`, as a function that throws when a store breaks it. */
export const conformanceChecks: readonly Check[] = [
  ...capabilityChecks,
  ...keyChecks,
  ...createChecks,
  ...readChecks,
  ...listChecks,
  ...deleteChecks,
  ...uploadChecks,
  ...resumeChecks,
  ...abortChecks,
  ...raceChecks,
];
