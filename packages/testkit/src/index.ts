/**
 * Checks for stores, stores with deliberate faults, and time and randomness under a test's control.
 */

export type { Check } from './conformance/check.ts';
export { type ConformanceCheck, conformanceChecks } from './conformance/conformance-checks.ts';
export { ConformanceError, expectThat } from './conformance/expect.ts';
export {
  type ConformanceOptions,
  type ConformanceTarget,
  registerConformance,
  type TestApi,
} from './conformance/register-conformance.ts';
export type { CheckContext } from './conformance/scratch.ts';
export { crc32c } from './crc32c.ts';
export {
  type Effect,
  FAULTS,
  type Fault,
  type FaultName,
  type FaultPlan,
  type PlannedCall,
  refuse,
} from './faults/fault.ts';
export {
  faultAt,
  type ScriptStep,
  type SeededFaultsOptions,
  scriptedFaults,
  seededFaults,
} from './faults/fault-plan.ts';
export {
  type CallRecord,
  FaultyStore,
  type FaultyStoreOptions,
  ProcessStopped,
} from './faults/faulty-store.ts';
export { LateEffects } from './faults/late-effects.ts';
export { ManualClock, type ManualClockOptions } from './manual-clock.ts';
export {
  type ProcessRaceOptions,
  type ProcessRaceReport,
  raceAcrossProcesses,
} from './races/race-across-processes.ts';
export type { StoreModule } from './races/race-messages.ts';
export { SeededRandom } from './seeded-random.ts';
export { tryEmptyObject, tryRaces, tryToCreateTwice } from './trials/create-trials.ts';
export { tryToDelete, tryToListAfterDelete } from './trials/delete-trials.ts';
export { type Ground, partSizeNear } from './trials/ground.ts';
export { expectListing, tryToListAfterWrite } from './trials/list-trials.ts';
export { patiently } from './trials/patience.ts';
export { PatientClient } from './trials/patient-client.ts';
export { ChangedOnTheWay, expectRead } from './trials/read-back.ts';
export { tryToReadAfterWrite, tryToReadRanges, type WantedRange } from './trials/read-trials.ts';
export { tryToAbort, tryToResume, tryToUpload, tryWrongChecksums } from './trials/upload-trials.ts';
