/**
 * The share of one parameter server: its rows of each table with the optimizer's accumulators, and
 * its dense variables. Rows learn by Adagrad. Dense variables learn by plain gradient descent,
 * which keeps no state. A dense variable's name decides its server. An accumulator has another
 * name, so a new number of servers could place it on another server than its variable.
 */

import { beginDense, beginRow, DIM, type Shape } from './parameters.ts';
import { type Position, rowCountOf, slotOfRow, variablesOf } from './placement.ts';

const ROW_LEARNING_RATE = 0.08;
const DENSE_LEARNING_RATE = 0.05;
const FIRST_ACCUMULATOR = 0.1;

export interface Parameters {
  /** For each table, rows of `DIM` elements. */
  readonly rows: readonly Float32Array[];
  /** The variables of the server that is asked, in the order of `DENSE_VARIABLES`. */
  readonly dense: readonly Float32Array[];
}

/** Includes the optimizer's state. Rows are in the order of their ids. */
export interface ShardState extends Parameters {
  readonly accumulators: readonly Float32Array[];
}

export class ParameterShard {
  readonly position: Position;
  readonly state: ShardState;
  #version: number;

  constructor(position: Position, version: number, state: ShardState) {
    this.position = position;
    this.#version = version;
    this.state = state;
  }

  /** An untrained model. */
  static begin(shape: Shape, position: Position): ParameterShard {
    const rows = shape.rowCounts.map((totalCount, table) => {
      const values = new Float32Array(rowCountOf(totalCount, position) * DIM);
      for (let id = position.index; id < totalCount; id += position.count) {
        const start = slotOfRow(id, position) * DIM;
        beginRow(shape, table, id, values.subarray(start, start + DIM));
      }
      return values;
    });
    return new ParameterShard(position, 0, {
      rows,
      accumulators: rows.map(({ length }) => new Float32Array(length).fill(FIRST_ACCUMULATOR)),
      dense: variablesOf(position).map((variable) => beginDense(shape, variable)),
    });
  }

  /** Number of applied updates. */
  get version(): number {
    return this.#version;
  }

  /** A copy, which later updates do not change. */
  copy(): ParameterShard {
    const { rows, accumulators, dense } = this.state;
    const copied = (arrays: readonly Float32Array[]) => arrays.map((array) => array.slice());
    return new ParameterShard(this.position, this.#version, {
      rows: copied(rows),
      accumulators: copied(accumulators),
      dense: copied(dense),
    });
  }

  /** Returns the rows of the ids in the requested order for each table, and all dense variables. */
  pull(ids: readonly Int32Array[]): Parameters {
    const rows = ids.map((wanted, table) => {
      const values = this.state.rows[table] as Float32Array;
      const pulled = new Float32Array(wanted.length * DIM);
      for (const [i, id] of wanted.entries()) {
        const start = slotOfRow(id, this.position) * DIM;
        pulled.set(values.subarray(start, start + DIM), i * DIM);
      }
      return pulled;
    });
    return { rows, dense: this.state.dense };
  }

  /**
   * Applies one update. `gradients` have the shapes that `pull` returned for these ids. Each id
   * must occur once.
   */
  push(ids: readonly Int32Array[], gradients: Parameters): void {
    for (const [table, pushed] of ids.entries()) {
      const gradient = gradients.rows[table] as Float32Array;
      for (const [i, id] of pushed.entries())
        this.#learnRow(table, slotOfRow(id, this.position), gradient, i);
    }
    for (const [i, values] of this.state.dense.entries()) {
      const gradient = gradients.dense[i] as Float32Array;
      for (let k = 0; k < values.length; k++) {
        values[k] = (values[k] as number) - DENSE_LEARNING_RATE * (gradient[k] as number);
      }
    }
    this.#version += 1;
  }

  #learnRow(table: number, slot: number, gradients: Float32Array, row: number): void {
    const values = this.state.rows[table] as Float32Array;
    const accumulators = this.state.accumulators[table] as Float32Array;
    for (let k = 0; k < DIM; k++) {
      const at = slot * DIM + k;
      const gradient = gradients[row * DIM + k] as number;
      const accumulated = (accumulators[at] as number) + gradient * gradient;
      accumulators[at] = accumulated;
      values[at] = (values[at] as number) - (ROW_LEARNING_RATE * gradient) / Math.sqrt(accumulated);
    }
  }
}
