/**
 * The model as trainers use it, distributed over parameter servers. It gathers what a batch needs,
 * computes, and sends gradients back.
 */

import type { Batch } from './clicks.ts';
import { DeepFm, type Dense, type Gathered, type Gradients } from './deep-fm.ts';
import type { Parameters } from './parameter-shard.ts';
import { DENSE_VARIABLES, DIM } from './parameters.ts';
import { serverOfRow, variablesOf } from './placement.ts';

/** A connection to a parameter server in any process. */
export interface ServerLink {
  /** For each table, the rows of these ids; and the server's dense variables. */
  pull(ids: readonly Int32Array[]): Promise<Parameters>;
  /** Resolves once the server has applied the update. */
  push(ids: readonly Int32Array[], gradients: Parameters): Promise<void>;
}

/** The part of a batch that lies on one server. */
interface Share {
  readonly server: ServerLink;
  /** Indexes into `DENSE_VARIABLES`. */
  readonly variables: readonly number[];
  /** For each table. */
  readonly ids: readonly Int32Array[];
  /** Indexes of these ids among all ids of the batch. */
  readonly slots: readonly Int32Array[];
}

export class SharedModel {
  readonly #servers: readonly ServerLink[];
  /** For each server, indexes into `DENSE_VARIABLES`. */
  readonly #variables: readonly (readonly number[])[];
  readonly #math = new DeepFm();

  /** All servers, in their order. */
  constructor(servers: readonly ServerLink[]) {
    this.#servers = servers;
    this.#variables = servers.map((_, index) =>
      variablesOf({ index, count: servers.length }).map((variable) => DENSE_VARIABLES.indexOf(variable)),
    );
  }

  /** Updates every server once. Resolves to the mean loss of the batch before the update. */
  async learn(batch: Batch): Promise<number> {
    const { shares, gathered } = await this.#gather(batch);
    const { loss, gradients } = this.#math.learn(gathered, batch.clicked);
    await Promise.all(shares.map((share) => share.server.push(share.ids, partOf(gradients, share))));
    return loss;
  }

  /** Probabilities of a click. */
  async predict(batch: Batch): Promise<Float64Array> {
    const { gathered } = await this.#gather(batch);
    return this.#math.predict(gathered);
  }

  async #gather(batch: Batch): Promise<{ shares: readonly Share[]; gathered: Gathered }> {
    const needed = batch.ids.map(distinct);
    const shares = this.#divide(needed.map(({ ids }) => ids));
    const rows = needed.map(({ ids }) => new Float32Array(ids.length * DIM));
    const dense = new Array<Float32Array>(DENSE_VARIABLES.length);
    const fetch = async (share: Share) => {
      const pulled = await share.server.pull(share.ids);
      for (const [table, values] of pulled.rows.entries()) {
        scatterRows(values, share.slots[table] as Int32Array, rows[table] as Float32Array);
      }
      for (const [i, values] of pulled.dense.entries()) dense[share.variables[i] as number] = values;
    };
    await Promise.all(shares.map(fetch));
    const slots = needed.map(({ slots }) => slots);
    return { shares, gathered: { rows, slots, dense: dense as unknown as Dense } };
  }

  #divide(needed: readonly (readonly number[])[]): Share[] {
    const count = this.#servers.length;
    const homes = needed.map((ids) => ids.map((id) => serverOfRow(id, count)));
    return this.#servers.map((server, index) => {
      const slots = homes.map((homesOfTable) =>
        Int32Array.from([...homesOfTable.keys()].filter((slot) => homesOfTable[slot] === index)),
      );
      const ids = slots.map((mine, table) => mine.map((slot) => needed[table]?.[slot] as number));
      return { server, variables: this.#variables[index] ?? [], ids, slots };
    });
  }
}

/** Each id once, and for each example the index of its id. */
function distinct(ids: Int32Array): { ids: number[]; slots: Int32Array } {
  const slotOf = new Map<number, number>();
  const slots = ids.map((id) => {
    const slot = slotOf.get(id) ?? slotOf.size;
    slotOf.set(id, slot);
    return slot;
  });
  return { ids: [...slotOf.keys()], slots };
}

function partOf(gradients: Gradients, { variables, slots }: Share): Parameters {
  return {
    rows: gradients.rows.map((values, table) => gatherRows(values, slots[table] as Int32Array)),
    dense: variables.map((i) => gradients.dense[i] as Float32Array),
  };
}

function gatherRows(from: Float32Array, slots: Int32Array): Float32Array {
  const rows = new Float32Array(slots.length * DIM);
  for (const [i, slot] of slots.entries()) rows.set(from.subarray(slot * DIM, (slot + 1) * DIM), i * DIM);
  return rows;
}

function scatterRows(rows: Float32Array, slots: Int32Array, into: Float32Array): void {
  for (const [i, slot] of slots.entries()) into.set(rows.subarray(i * DIM, (i + 1) * DIM), slot * DIM);
}
