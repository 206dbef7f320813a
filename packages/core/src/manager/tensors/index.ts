/** The tensors of a checkpoint. */

export { diff } from './diff.ts';
export { exportTensors } from './export-tensors.ts';
export { inspect } from './inspect.ts';
