/**
 * The training data: which user was shown which item at which hour, and whether the user clicked. A
 * rule that the model does not know generates it. Users and items have tastes, some are keener or
 * more popular, and hours differ. Everything follows from a seed and is generated when needed, so
 * each trainer generates its own share.
 */

import { bell, Chance, mix } from './chance.ts';
import type { Shape } from './parameters.ts';

export interface Batch {
  /** Ids of users, items and hours: `ids[table][i]` belongs to example `i`. */
  readonly ids: readonly Int32Array[];
  /** 1 if the user clicked, otherwise 0. */
  readonly clicked: Uint8Array;
}

const BATCH_SIZE = 512;
const HELD_OUT_SIZE = 8192;

const TASTE_COUNT = 3;
/**
 * Popularity of rank `r` falls as `1 / r ** ZIPF`, so that a few users and items make up most
 * clicks.
 */
const ZIPF = 1.15;
/** The stream of the held-out examples. Streams from 0 on belong to trainers. */
const HELD_OUT_STREAM = -1;

/**
 * The training examples of step `step` of a stream. Each trainer has its own stream, and a new one
 * when the job restarts.
 */
export function trainingBatch(shape: Shape, stream: number, step: number): Batch {
  return clicks(shape, mix(shape.seed, stream, step), BATCH_SIZE);
}

/** The examples that judge the model. It never trains on them. */
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

/** The rule that generates the clicks. */
function inclination(seed: number, user: number, item: number, hour: number): number {
  let matched = 0;
  for (let taste = 1; taste <= TASTE_COUNT; taste++) {
    matched += bell(mix(seed, user, taste)) * bell(mix(seed, ~item, taste));
  }
  const keenness = 0.7 * bell(mix(seed, user, 0));
  const popularity = 1.2 * bell(mix(seed, ~item, 0));
  return -0.5 + keenness + popularity + 1.2 * matched + 0.5 * Math.sin((hour / 24) * 2 * Math.PI);
}

/**
 * Turns a draw from 0 to 1 into a rank from 0 to `count - 1`. It inverts the integral of the
 * popularity.
 */
function zipf(draw: number, count: number): number {
  const power = 1 - ZIPF;
  return Math.min(count - 1, Math.floor((1 + draw * ((count + 1) ** power - 1)) ** (1 / power)) - 1);
}
