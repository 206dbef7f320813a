/**
 * What the model learns from: who was shown what at which hour, and whether they clicked. It is made up, by a rule that the model does not
 * know: users and items have tastes, some are keener or more popular, and hours differ. Everything follows from a seed and is made on
 * the fly, so each trainer makes its own share.
 */

import { bell, Chance, mix } from './chance.ts';
import type { Shape } from './parameters.ts';

export interface Batch {
  /** Of users, items and hours: `ids[table][i]` belongs to example `i`. */
  readonly ids: readonly Int32Array[];
  /** 1: clicked. */
  readonly clicked: Uint8Array;
}

const BATCH_SIZE = 512;
const HELD_OUT_SIZE = 8192;

const TASTE_COUNT = 3;
/** Popularity of rank `r` falls as `1 / r ** ZIPF`: few users and items make up most of the clicks. */
const ZIPF = 1.15;
/** Those from 0 on are the trainers'. */
const HELD_OUT_STREAM = -1;

/** What is learned from in step `step` of a stream: each trainer has its own, and a new one when the job starts anew. */
export function trainingBatch(shape: Shape, stream: number, step: number): Batch {
  return clicks(shape, mix(shape.seed, stream, step), BATCH_SIZE);
}

/** What the model is judged by: examples that it never learns from. */
export function heldOut(shape: Shape): Batch {
  return clicks(shape, mix(shape.seed, HELD_OUT_STREAM, 0), HELD_OUT_SIZE);
}

function clicks(shape: Shape, stream: number, size: number): Batch {
  const chance = new Chance(shape.seed, stream);
  const ids = shape.rowCounts.map(() => new Int32Array(size));
  const clicked = new Uint8Array(size);
  const [users, items, hours] = ids as [Int32Array, Int32Array, Int32Array];
  const [userCount, itemCount, hourCount] = shape.rowCounts;
  for (let i = 0; i < size; i++) {
    const user = zipf(chance.next(), userCount);
    const item = zipf(chance.next(), itemCount);
    const hour = Math.floor(chance.next() * hourCount);
    users[i] = user;
    items[i] = item;
    hours[i] = hour;
    const probability = 1 / (1 + Math.exp(-inclination(shape.seed, user, item, hour)));
    clicked[i] = chance.next() < probability ? 1 : 0;
  }
  return { ids, clicked };
}

/** The rule behind it all. */
function inclination(seed: number, user: number, item: number, hour: number): number {
  let matched = 0;
  for (let taste = 1; taste <= TASTE_COUNT; taste++) {
    matched += bell(mix(seed, user, taste)) * bell(mix(seed, ~item, taste));
  }
  const keenness = 0.7 * bell(mix(seed, user, 0));
  const popularity = 1.2 * bell(mix(seed, ~item, 0));
  return -0.5 + keenness + popularity + 1.2 * matched + 0.5 * Math.sin((hour / 24) * 2 * Math.PI);
}

/** A rank from 0 to `count - 1` by a draw from 0 to 1: the inverse of the integral of the popularity. */
function zipf(draw: number, count: number): number {
  const power = 1 - ZIPF;
  return Math.min(count - 1, Math.floor((1 + draw * ((count + 1) ** power - 1)) ** (1 / power)) - 1);
}
