/** Finds the runs below places in stores, and summarises each with a few small reads. */

export { type FleetOptions, type FleetPlace, fleetOf } from './fleet.ts';
export { FleetView, type FleetViewOptions } from './fleet-view.ts';
export {
  isCertainlyRun,
  type LatestSummary,
  type RunProblem,
  type RunState,
  type RunSummary,
  type SaveInProgress,
} from './run-summary.ts';
export { uriBelow } from './uri-below.ts';
