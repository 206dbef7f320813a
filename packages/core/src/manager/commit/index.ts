/** Turns the deliveries of all writers into a committed checkpoint. */

export { annotate, recordAnnotation } from './annotate.ts';
export { begun } from './begun.ts';
export { type FinaliseOptions, finalise, finaliseOnce } from './finalise.ts';
export { finishVersion, type LifeInAttempt } from './finish-version.ts';
export {
  type Attempt,
  assertNotOvertaken,
  chooseAttempt,
  fencedAttempt,
  join,
  joinToSave,
  type Membership,
  newAttempt,
} from './join.ts';
export { overview } from './overview.ts';
export { deliver } from './write-receipt.ts';
