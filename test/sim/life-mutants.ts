/**
 * Mistakes planted into the rules for several processes of one life; see engine-mutants.ts. Each
 * removes one of the rules of decision 30, which are only safe together.
 */

import type { EngineMutant } from './mutant.ts';
import { FIRST_LIFE_SEED } from './story.ts';

export const LIFE_MUTANTS: Readonly<Record<string, EngineMutant>> = {
  'each process claims the next incarnation, whatever its life': {
    file: 'manager/records/claims.ts',
    find: 'if ((await lifeOf(run, { ...place, incarnation: highest }, signal)) === life)',
    replace: 'if (false)',
    seed: FIRST_LIFE_SEED,
  },
  'a claim that is taken means the next number': {
    file: 'manager/records/claims.ts',
    find: 'if (await create(run, { ...place, incarnation }, life, signal)) return { incarnation, isNew: true };',
    replace:
      'for (let next = incarnation; ; next++) if (await create(run, { ...place, incarnation: next }, life, signal)) return { incarnation: next, isNew: true };',
    seed: FIRST_LIFE_SEED + 38,
  },
  'a life that was superseded claims again': {
    file: 'manager/records/claims.ts',
    find: 'await assertNotSuperseded(run, place, { life, lower }, signal);',
    replace: '',
    seed: FIRST_LIFE_SEED + 12,
  },
  'a claim that is found counts without being registered': {
    file: 'manager/commit/join.ts',
    find: 'const isFirst = incarnation === 0 && life === undefined;',
    replace: 'const isFirst = !isNew || (incarnation === 0 && life === undefined);',
    seed: FIRST_LIFE_SEED + 12,
  },
  'a life restores before it joins': {
    file: 'manager/manager.ts',
    find: 'if (this.#writers.sharedLife) await this.#writers.join(undefined, bounded);',
    replace: '',
    seed: FIRST_LIFE_SEED + 37,
  },
  'a receipt that is found counts as delivered, whatever it says': {
    file: 'manager/commit/write-receipt.ts',
    find: 'if (isSame) {',
    replace: 'if (true) {',
    seed: FIRST_LIFE_SEED + 9,
  },
  'a receipt is known by its key alone': {
    file: 'manager/records/receipts.ts',
    find: 'return bytesEqual(listed.sha256, own.sha256);',
    replace: 'return true;',
    seed: FIRST_LIFE_SEED + 5,
  },
  'a life may begin anew in each lineage': {
    file: 'manager/records/claims.ts',
    find: 'if (life !== undefined) await assertNotRolledBack(run, place, life, signal);',
    replace: '',
    seed: FIRST_LIFE_SEED + 34,
  },
  'claims are swept with their lineage': {
    file: 'plan/sweep.ts',
    find: 'claim.epoch < state.epoch',
    replace: 'claim.epoch < state.epoch || claim.lineage < state.lineage',
    seed: FIRST_LIFE_SEED + 295,
  },
  'a process that is refused does not ask what is committed': {
    file: 'manager/save/save.ts',
    find: '  if (!committed) {\n    const { top } = head.state;',
    replace:
      '  if (isPast) throw fencedAttempt(run, head, attempt);\n  if (!committed) {\n    const { top } = head.state;',
    seed: FIRST_LIFE_SEED + 39,
  },
  'what became of a shared upload is not compared': {
    file: 'transfer/store-parts.ts',
    find: 'if (this.#isShared) assertLike(',
    replace: 'if (false) assertLike(',
    seed: FIRST_LIFE_SEED + 88,
  },
  'an object that is found under the key counts as the own': {
    file: 'transfer/store-parts.ts',
    find: 'const isLike = found.crc32c === undefined ? isAcknowledged : found.crc32c === whole.crc32c;',
    replace: 'const isLike = !isAcknowledged || found.crc32c === whole.crc32c;',
    seed: FIRST_LIFE_SEED + 483,
  },
  'the record of an upload goes before its end is known': {
    file: 'transfer/store-parts.ts',
    find: 'if (this.#lost) throw this.#lost;\n    try {',
    replace: 'if (this.#lost) throw this.#lost;\n    this.#item.onEnded?.(this.#upload);\n    try {',
    seed: FIRST_LIFE_SEED + 1,
  },
};
