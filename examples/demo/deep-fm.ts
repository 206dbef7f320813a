/**
 * The model, a small DeepFM (Guo et al., 2017). It takes the rows of a user, an item and an hour.
 * It adds up their weights and the dot product of each pair of vectors. Beside that, a hidden layer
 * reads all three rows. The sigmoid of the sum is the probability of a click.
 */

import { DIM, HIDDEN_COUNT, TABLE_NAMES } from './parameters.ts';

// Copied into this module because the innermost loops read them. Test runners look up an import at
// each use.
const UNIT_COUNT = HIDDEN_COUNT;
const ROW_LENGTH = DIM;
const TABLE_COUNT = TABLE_NAMES.length;
const INPUT_COUNT = TABLE_COUNT * ROW_LENGTH;

/**
 * One array for each dense variable: `bias:0`, `hidden/kernel:0`, `hidden/bias:0`,
 * `output/kernel:0`.
 */
export type Dense = readonly [Float32Array, Float32Array, Float32Array, Float32Array];

/** The part of the model that a batch needs. */
export interface Gathered {
  /** For each table, rows of `DIM` elements. */
  readonly rows: readonly Float32Array[];
  /** For each table and example, the index of its row in `rows`. */
  readonly slots: readonly Int32Array[];
  readonly dense: Dense;
}

export interface Gradients {
  /**
   * Sums over the examples of a row, so that the examples of a rare user count as much as others.
   */
  readonly rows: readonly Float32Array[];
  /** Means over all examples. */
  readonly dense: Dense;
}

/**
 * Lower bound for a probability in the loss, so that rounding to 0 or 1 does not make the loss
 * infinite.
 */
const NEARLY_ZERO = 1e-12;

export function logisticLoss(probability: number, clicked: number): number {
  return -Math.log(Math.max(NEARLY_ZERO, clicked === 1 ? probability : 1 - probability));
}

/** Computes one example after the other in preallocated memory. */
export class DeepFm {
  readonly #input = new Float64Array(INPUT_COUNT);
  /** Sum of the three vectors. Element 0 is the sum of the weights. */
  readonly #sum = new Float64Array(ROW_LENGTH);
  /** Outputs of the hidden units, never below 0. */
  readonly #hidden = new Float64Array(UNIT_COUNT);
  readonly #hiddenGradient = new Float64Array(UNIT_COUNT);

  /** The probability of a click for each example. */
  predict(gathered: Gathered): Float64Array {
    const count = gathered.slots[0]?.length ?? 0;
    return Float64Array.from({ length: count }, (_, example) => this.#forward(gathered, example));
  }

  /** `loss`: the mean over all examples. */
  learn(gathered: Gathered, clicked: Uint8Array): { loss: number; gradients: Gradients } {
    const rows = gathered.rows.map(({ length }) => new Float32Array(length));
    const dense = gathered.dense.map(({ length }) => new Float32Array(length)) as unknown as Dense;
    let lossSum = 0;
    for (let example = 0; example < clicked.length; example++) {
      const label = clicked[example] as number;
      const probability = this.#forward(gathered, example);
      lossSum += logisticLoss(probability, label);
      this.#backward(gathered, example, probability - label, { rows, dense });
    }
    for (const gradient of dense) {
      for (let i = 0; i < gradient.length; i++) gradient[i] = (gradient[i] as number) / clicked.length;
    }
    return { loss: lossSum / clicked.length, gradients: { rows, dense } };
  }

  #forward(gathered: Gathered, example: number): number {
    const [bias] = gathered.dense;
    const logit =
      (bias[0] as number) + this.#factorizationMachine(gathered, example) + this.#deepPart(gathered);
    return 1 / (1 + Math.exp(-logit));
  }

  /** Fills `#input` and `#sum`. */
  #factorizationMachine({ rows, slots }: Gathered, example: number): number {
    const input = this.#input;
    const sum = this.#sum.fill(0);
    let squares = 0;
    for (let table = 0; table < TABLE_COUNT; table++) {
      const values = rows[table] as Float32Array;
      const start = ((slots[table] as Int32Array)[example] as number) * ROW_LENGTH;
      for (let k = 0; k < ROW_LENGTH; k++) {
        const value = values[start + k] as number;
        input[table * ROW_LENGTH + k] = value;
        sum[k] = (sum[k] as number) + value;
        if (k > 0) squares += value * value;
      }
    }
    // The sum of all pairwise dot products is (square of the sum - sum of the squares) / 2.
    let squareOfSum = 0;
    for (let k = 1; k < ROW_LENGTH; k++) squareOfSum += (sum[k] as number) ** 2;
    return (sum[0] as number) + (squareOfSum - squares) / 2;
  }

  /** Fills `#hidden`. */
  #deepPart({ dense: [, kernel, biases, outputKernel] }: Gathered): number {
    const hidden = this.#hidden;
    hidden.set(biases);
    for (let i = 0; i < INPUT_COUNT; i++) {
      const value = this.#input[i] as number;
      const start = i * UNIT_COUNT;
      for (let unit = 0; unit < UNIT_COUNT; unit++) {
        hidden[unit] = (hidden[unit] as number) + value * (kernel[start + unit] as number);
      }
    }
    let output = 0;
    for (let unit = 0; unit < UNIT_COUNT; unit++) {
      const active = Math.max(0, hidden[unit] as number);
      hidden[unit] = active;
      output += active * (outputKernel[unit] as number);
    }
    return output;
  }

  /**
   * Adds the contribution of `example`, which must be the last one that `#forward` computed.
   * `error` is the derivative of its loss by the logit.
   */
  #backward({ slots, dense }: Gathered, example: number, error: number, gradients: Gradients): void {
    const [bias] = gradients.dense;
    bias[0] = (bias[0] as number) + error;
    this.#backThroughHidden(dense, error, gradients.dense);
    const [, kernel] = dense;
    for (let table = 0; table < TABLE_COUNT; table++) {
      const gradient = gradients.rows[table] as Float32Array;
      const start = ((slots[table] as Int32Array)[example] as number) * ROW_LENGTH;
      for (let k = 0; k < ROW_LENGTH; k++) {
        const i = table * ROW_LENGTH + k;
        let total = k === 0 ? error : error * ((this.#sum[k] as number) - (this.#input[i] as number));
        for (let unit = 0; unit < UNIT_COUNT; unit++) {
          total += (this.#hiddenGradient[unit] as number) * (kernel[i * UNIT_COUNT + unit] as number);
        }
        gradient[start + k] = (gradient[start + k] as number) + total;
      }
    }
  }

  /** Fills `#hiddenGradient`. */
  #backThroughHidden(
    [, , , outputKernel]: Dense,
    error: number,
    [, kernelGradient, biasGradient, outputGradient]: Dense,
  ): void {
    const hidden = this.#hidden;
    const hiddenGradient = this.#hiddenGradient;
    for (let unit = 0; unit < UNIT_COUNT; unit++) {
      const isActive = (hidden[unit] as number) > 0;
      hiddenGradient[unit] = isActive ? error * (outputKernel[unit] as number) : 0;
      biasGradient[unit] = (biasGradient[unit] as number) + (hiddenGradient[unit] as number);
      outputGradient[unit] = (outputGradient[unit] as number) + error * (hidden[unit] as number);
    }
    for (let i = 0; i < INPUT_COUNT; i++) {
      const value = this.#input[i] as number;
      const start = i * UNIT_COUNT;
      for (let unit = 0; unit < UNIT_COUNT; unit++) {
        kernelGradient[start + unit] =
          (kernelGradient[start + unit] as number) + value * (hiddenGradient[unit] as number);
      }
    }
  }
}
