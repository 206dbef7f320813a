/**
 * Mistakes planted into the engine: each removes one rule. The source is changed only while it is
 * loaded into the process. The text to replace must occur exactly once, so that a mutant cannot
 * silently become ineffective.
 */

import { LIFE_MUTANTS } from './life-mutants.ts';
import type { Change, EngineMutant } from './mutant.ts';
import { PAGE_MUTANTS } from './page-mutants.ts';
import { REBUILD_MUTANTS } from './rebuild-mutants.ts';
import { FIRST_COLLECTING_SEED, FIRST_DRAWN_SEED, FIRST_STOPPING_SEED } from './story.ts';

/**
 * Not a mistake: every invariant holds in an engine with limits this small. Orders that would take
 * hundreds of decisions come early in it.
 */
export const SMALL: readonly Change[] = [
  { file: 'plan/state.ts', find: 'TXN_RING_LENGTH = 256', replace: 'TXN_RING_LENGTH = 2' },
];
export const SMALL_ENGINE = 'an engine of small dimensions';

export const ENGINE_MUTANTS: Readonly<Record<string, EngineMutant>> = {
  'a commit does not ask for the epoch': {
    file: 'plan/apply-commit.ts',
    find: 'const passed = inEpochProblem(state, id);',
    replace: 'const passed = inEpochProblem(state, { ...id, epoch: state.epoch });',
    seed: 40,
  },
  'a commit does not ask whether the version is above the highest': {
    file: 'plan/apply-commit.ts',
    find: 'if (id.version <= state.top) {',
    replace: 'if (false) {',
    seed: 38,
  },
  'a commit takes receipts of former lives': {
    file: 'plan/apply-commit.ts',
    find: 'txn.writers.find(({ writer, incarnation }) => incarnation !== incarnationOf(state, writer))',
    replace: 'txn.writers.find(() => false)',
    seed: 146,
  },
  'presence is asked after the epoch': {
    file: 'plan/apply-commit.ts',
    find: '  if (present) return',
    replace: '  if (present && id.epoch === state.epoch) return',
    seed: 71,
  },
  'any commit of the version counts as the own': {
    file: 'manager/records/receipts.ts',
    find: 'if (listed === undefined || own.sha256 === undefined) return listed !== undefined;',
    replace: 'return true;',
    seed: 79,
  },
  'an entry that exists means that the decision is lost': {
    file: 'manager/catalog/sending.ts',
    find: "if (isCheckpointError(error, 'AlreadyExists') || isUnanswered(error))",
    replace:
      "if (isCheckpointError(error, 'AlreadyExists')) { this.#memory.openOn = undefined; throw new CheckpointError('Conflict', 'lost'); }\nif (isUnanswered(error))",
    seed: 9,
  },
  'a lost reply means that the decision is lost': {
    file: 'manager/catalog/sending.ts',
    find: "if (isCheckpointError(error, 'AlreadyExists') || isUnanswered(error))",
    replace:
      "if (isUnanswered(error)) { this.#memory.openOn = undefined; throw new CheckpointError('Conflict', 'lost'); }\nif (isCheckpointError(error, 'AlreadyExists'))",
    seed: 9,
  },
  'a decision whose outcome is open is reported as an error of the store': {
    file: 'manager/catalog/catalog.ts',
    find: 'if (!send.mayHaveTakenEffect) throw error;',
    replace: "throw new CheckpointError('Conflict', 'gave up', { cause: error });",
    seed: 129,
  },
  'a save that is stopped after it has delivered says that it was stopped, and no more': {
    file: 'manager/commit/finalise.ts',
    find: 'isUnanswered(error) || isStopOf(error, options.signal)',
    replace: 'isUnanswered(error)',
    seed: FIRST_STOPPING_SEED + 10,
  },
  'a past attempt takes over again': {
    file: 'plan/state.ts',
    find: 'return state.pastAttempts.includes(attemptHash(attempt));',
    replace: 'return false;',
    seed: 4,
  },
  'a takeover keeps the lives of the attempt before': {
    file: 'plan/apply.ts',
    find: 'worldSize: txn.worldSize,\n      incarnations: {},',
    replace: 'worldSize: txn.worldSize,',
    seed: 5,
  },
  'a record that exists counts as the own': {
    file: 'manager/records/records.ts',
    find: 'return bytesEqual(found, bytes) ? { isOurs: true } : { isOurs: false, bytes: found };',
    replace: 'return { isOurs: true };',
    seed: 54,
  },
  'a version that is committed counts as saved whatever is in it': {
    file: 'manager/save/save.ts',
    find: '!isContent(share, files, call)',
    replace: 'false',
    seed: 4,
  },
  'only the first page of the catalog is read': {
    file: 'manager/catalog/doubtful-names.ts',
    find: 'last = object.key;\n      }',
    replace: 'last = object.key;\n      }\n      break;',
    seed: 34,
  },
  'a restarted writer does not register': {
    file: 'manager/commit/join.ts',
    find: 'const joined = isFirst ? head :',
    replace: 'const joined = true ? head :',
    seed: 28,
  },
  'a takeover whose reply was lost is begun anew': {
    file: 'manager/commit/join.ts',
    find: 'id: takeover.id,',
    replace: 'id: newId(run),',
    seed: FIRST_DRAWN_SEED + 194,
  },
  'a drawn attempt forgets its takeover when a call fails': {
    file: 'manager/commit/join.ts',
    find: '...(attempt.isDrawn && { memory: takeover })',
    replace: '',
    seed: FIRST_DRAWN_SEED + 702,
    isSmall: true,
  },
  'a drawn attempt forgets its takeover when the ring does not cover it': {
    file: 'manager/catalog/sending.ts',
    find: 'if (head.seq - openOn > TXN_RING_LENGTH) return false;',
    replace: 'if (head.seq - openOn > TXN_RING_LENGTH) { this.#memory.openOn = undefined; return true; }',
    seed: FIRST_DRAWN_SEED + 194,
    isSmall: true,
  },
  'the ring is taken to cover one decision more': {
    file: 'manager/catalog/sending.ts',
    find: 'if (head.seq - openOn > TXN_RING_LENGTH) return false;',
    replace: 'if (head.seq - openOn > TXN_RING_LENGTH + 1) return false;',
    seed: FIRST_DRAWN_SEED + 272,
    isSmall: true,
  },
  'the manifest is sent after the commit': {
    file: 'manager/commit/finalise.ts',
    find: 'await createRecord(run, manifest.key, manifest.bytes, signal);\n    const result = await commit(run, { ...options, head, manifest, storeTimeMs });',
    replace:
      'const result = await commit(run, { ...options, head, manifest, storeTimeMs });\n    await createRecord(run, manifest.key, manifest.bytes, signal);',
  },
  'the receipt is written before the files': {
    file: 'manager/save/save.ts',
    find: 'const files = await capture.read(version, (sources, signal) =>\n      session.upload(sources, { ...options, signal }),\n    );\n    const meta = { ...checked, taken: capture.taken(version), directories };\n    const suspicions = await session.deliver(files, meta, options);',
    replace:
      'const { sources } = capture;\n  const meta = { ...checked, directories };\n  const items = sources.map(({ name, source }) => ({ name, key: () => "version_1/1.1/0.0-0f/" + name, source }));\n  const early = await run.transfers.checksum(items, {});\n  const suspicions = await session.deliver(early.map((file, index) => ({ ...file, key: items[index].key() })), meta, options);\n  const files = await session.upload(sources, options);',
  },
  'a sweep does not know of file lists': {
    file: 'manager/keep/held-keys.ts',
    find: 'if (listKey !== undefined) keys.push(listKey);',
    replace: '',
    seed: FIRST_COLLECTING_SEED + 6,
  },
  'the receipt is written before its file lists': {
    file: 'manager/commit/write-receipt.ts',
    find: "const created = await bounded(run, 'writing a list of files', until, (limit) =>\n      createRecord(run, key, bytes, limit),\n    );",
    replace:
      "void bounded(run, 'writing a list of files', until, (limit) => createRecord(run, key, bytes, limit)).catch(() => undefined);\n    const created = { isOurs: true };",
    seed: 2,
  },
  'an upload in parts is not recorded': {
    file: 'manager/records/upload-records.ts',
    find: 'if (!store.capabilities.resumesUploads) return {};',
    replace: 'return {};',
    seed: 1314,
  },
  'a receipt of any life of a writer is taken': {
    file: 'plan/assemble.ts',
    find: '.filter(({ writer, incarnation }) => incarnation === incarnationOf(state, writer))',
    replace: '.toReversed()',
    seed: 5,
  },
  'a lease holds nothing back': {
    file: 'manager/keep/collect.ts',
    find: 'due.free.filter(({ id }) => !problems.has(idText(id)))',
    replace: 'due.free',
    seed: FIRST_COLLECTING_SEED + 99,
  },
  'retention takes what the attempt resumed from': {
    file: 'plan/apply-keeping.ts',
    find: "if (state.resumedFrom && idEquals(state.resumedFrom, id)) return 'the current attempt resumed from it';",
    replace: '',
    seed: FIRST_COLLECTING_SEED + 55,
  },
  'retention takes what is pinned': {
    file: 'plan/apply-keeping.ts',
    find: 'if (pins.length > 0) return',
    replace: 'if (pins.length > 99) return',
    seed: FIRST_COLLECTING_SEED + 109,
  },
  'a sweep takes what can still be committed': {
    file: 'plan/state.ts',
    find: 'id.lineage < state.lineage || id.epoch < state.epoch || id.version <= state.top || isAbandoned(state, id)',
    replace: 'true',
    seed: FIRST_COLLECTING_SEED + 7,
  },
  ...PAGE_MUTANTS,
  ...REBUILD_MUTANTS,
  ...LIFE_MUTANTS,
};
