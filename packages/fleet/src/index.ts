/** Finds the runs below places in stores, and summarises each with a few small reads. */

export { type FleetOptions, type FleetPlace, fleetOf } from './fleet.ts';
export { FleetView, type FleetViewOptions } from './fleet-view.ts';
export type { LatestSummary, RunProblem, RunState, RunSummary, SaveInProgress } from './run-summary.ts';
export { uriBelow } from './uri-below.ts';
