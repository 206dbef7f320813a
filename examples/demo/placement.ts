/**
 * Places each parameter on a server by ElasticDL's rules, so that any number of servers finds its
 * share in a checkpoint.
 */

import { intToId, stringToId } from '@holdfast/elasticdl';
import { DENSE_VARIABLES, type DenseVariable } from './parameters.ts';

/** One of `count` parameter servers. */
export interface Position {
  readonly index: number;
  readonly count: number;
}

export function serverOfRow(id: number, count: number): number {
  return intToId(BigInt(id), count);
}

/**
 * Server `index` holds the ids `index`, `index + count`, `index + 2 * count`, … of a table, in this
 * order.
 */
export function slotOfRow(id: number, { count }: Position): number {
  return Math.floor(id / count);
}

export function rowCountOf(totalCount: number, { index, count }: Position): number {
  return Math.max(0, Math.ceil((totalCount - index) / count));
}

/** In the order of `DENSE_VARIABLES`. */
export function variablesOf({ index, count }: Position): readonly DenseVariable[] {
  return DENSE_VARIABLES.filter(({ name }) => stringToId(name, count) === index);
}
