/**
 * The trainer's side of checkpoints: restorable state, a train loop that survives lost workers, and
 * the election of the trainer that exports the model.
 */

export type * from './checkpoints.ts';
export type * from './coordinator.ts';
export { checkTrainerId, type Election } from './election/election.ts';
export { type ModelFiles, saveModel } from './election/save-model.ts';
export { StaticElection } from './election/static-election.ts';
export { StoreElection, type StoreElectionOptions } from './election/store-election.ts';
export { NonRetryableException, RecoverableError, StopException, StopIteration } from './errors.ts';
export { EtcdCoordinator, type EtcdCoordinatorOptions } from './etcd/etcd-coordinator.ts';
export { EtcdElection, type EtcdElectionOptions } from './etcd/etcd-election.ts';
export { FileSystemCheckpointManager } from './file-system-manager/manager.ts';
export { LocalCoordinator } from './local-coordinator.ts';
export { getCheckpointManager, setCheckpointManager } from './registry.ts';
export { broadcast } from './rendezvous/broadcast.ts';
export { MultiProcessCoordinator, type MultiProcessOptions } from './rendezvous/multi-process-coordinator.ts';
export { RendezvousServer, type RendezvousServerOptions } from './rendezvous/server.ts';
export {
  type AsyncSaveOptions,
  AsyncSaver,
  type AsyncSaverOptions,
  type SaverReport,
  type StreamsSaveOptions,
} from './saving/async-saver.ts';
export { DirectoryStaging, type DirectoryStagingOptions } from './saving/directory-staging.ts';
export { MemoryStaging, type MemoryStagingOptions } from './saving/memory-staging.ts';
export { Preemption, type PreemptionOptions, type ReleaseHold } from './saving/preemption.ts';
export type { PreemptionReport } from './saving/preemption-report.ts';
export type * from './saving/saver.ts';
export {
  afterSave,
  anyOf,
  atSteps,
  beginSchedule,
  everyMs,
  everySteps,
  type Moment,
  onImprovement,
  type SavedUntil,
  type Schedule,
  type StepMoment,
  type StepSchedule,
} from './schedule/schedule.ts';
export { State } from './state.ts';
export { type TrainOptions, type TrainStep, train } from './train.ts';
