/** The model of the demo: float32 tensors that change from step to step and follow from a seed alone, so they can be made again. */

export const WRITER_COUNT = 4;
const LAYER_COUNT = 8;
const TENSORS_PER_LAYER = 3;

export interface Model {
  readonly seed: number;
  /** Of all tensors together; a little less comes out, as every tensor holds whole numbers. */
  readonly sizeBytes: number;
}

/** A moment of the training. Another attempt shuffles its data differently, so it arrives at other values. */
export interface Step {
  readonly version: number;
  readonly attempt: number;
}

export type Files = Record<string, Uint8Array>;

/** What one writer saves: its layers with the optimizer's state, and, from writer 0, a small file about the run. */
export function filesOfWriter(writer: number, model: Model, step: Step): Files {
  const files: Files = {};
  for (let layer = writer; layer < LAYER_COUNT; layer += WRITER_COUNT) {
    const { weights, mean, variance } = tensorsOfLayer(layer, model, step);
    const name = String(layer).padStart(2, '0');
    files[`layers/${name}/weights.bin`] = bytesOf(weights);
    files[`layers/${name}/optimizer/exp_avg.bin`] = bytesOf(mean);
    files[`layers/${name}/optimizer/exp_avg_sq.bin`] = bytesOf(variance);
  }
  if (writer === 0) files['trainer.json'] = new TextEncoder().encode(JSON.stringify({ ...model, ...step }));
  return files;
}

/** Weights that walk away from where they began, and the two running averages that Adam keeps of their gradients. */
function tensorsOfLayer(layer: number, model: Model, step: Step) {
  const length = Math.floor(
    model.sizeBytes / LAYER_COUNT / TENSORS_PER_LAYER / Float32Array.BYTES_PER_ELEMENT,
  );
  const weights = new Float32Array(length);
  const mean = new Float32Array(length);
  const variance = new Float32Array(length);
  const beginning = bellCurve(model.seed + layer);
  const batches = bellCurve((model.seed + layer) * 1_000_003 + step.version * 2 + step.attempt);
  const learned = 1 + step.version * 0.001;
  for (let i = 0; i < length; i++) {
    const gradient = 0.01 * batches();
    weights[i] = 0.02 * beginning() * learned - 0.001 * gradient;
    mean[i] = gradient;
    variance[i] = gradient * gradient;
  }
  return { weights, mean, variance };
}

/** Numbers around 0 from -1 to 1, the same for the same seed: xorshift32, the sum of both halves of each draw. */
function bellCurve(seed: number): () => number {
  let x = Math.imul(seed, 0x9e3779b1) || 1; // xorshift never leaves 0
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return ((x & 0xffff) + (x >>> 16) - 0xffff) / 0x10000;
  };
}

function bytesOf(tensor: Float32Array): Uint8Array {
  return new Uint8Array(tensor.buffer, tensor.byteOffset, tensor.byteLength);
}
