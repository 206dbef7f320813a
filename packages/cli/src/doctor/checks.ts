import { accessChecks } from './access-checks.ts';
import type { Check } from './check.ts';
import { clockChecks } from './clock-checks.ts';
import { createChecks } from './create-checks.ts';
import { deleteChecks } from './delete-checks.ts';
import { listChecks } from './list-checks.ts';
import { readChecks } from './read-checks.ts';
import { settingsChecks } from './settings-checks.ts';
import { speedChecks } from './speed-checks.ts';
import { uploadChecks } from './upload-checks.ts';

/** All checks of a store, in order. */
export const CHECKS: readonly Check[] = [
  ...accessChecks,
  ...createChecks,
  ...readChecks,
  ...listChecks,
  ...uploadChecks,
  ...deleteChecks,
  ...clockChecks,
  ...settingsChecks,
  ...speedChecks,
];
