/** Copies checkpoints between runs, and goes back within a run. */

export { fork } from './fork.ts';
export { mirror } from './mirror.ts';
export { rollback } from './rollback.ts';
