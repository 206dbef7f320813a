/** Argument rules of this package, besides those that all packages share. */

import {
  abortSignal,
  having,
  listOf,
  oneOf,
  optional,
  plainObject,
  type Rule,
} from '@holdfast/core/contract';

/** Most shards of one reshard; each takes four bytes of a table. */
export const SHARD_COUNT_MAX = 65_536;

export const aPlace: Rule = having('where', 'list', 'open', 'parent', 'pathOf');
export const aManager: Rule = having('save', 'list', 'latest');
export const aTarget: Rule = having('open', 'publish', 'discard');
export const aForm: Rule = oneOf('S4', 'S7');
export const anExtension: Rule = oneOf('ckpt', 'chkpt');
/** An open set of shards. */
export const aSet: Rule = (name, value) => {
  plainObject(name, value);
  listOf(plainObject)(`${name}.shards`, (value as { shards?: unknown }).shards);
};

export const SIGNAL = { signal: optional(abortSignal) };
