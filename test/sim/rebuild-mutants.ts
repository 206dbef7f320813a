/**
 * Mistakes planted into the rebuild of a catalog, and into what clients expect of a rebuild; see
 * engine-mutants.ts and losing.ts.
 */

import type { EngineMutant } from './mutant.ts';
import { FIRST_LOSING_SEED } from './story.ts';

const MARK = 'const mark = await createRecord(run, catalogKey(FIRST_SEQ), bytes, signal, decides);';

export const REBUILD_MUTANTS: Readonly<Record<string, EngineMutant>> = {
  'a rebuild does not list the catalog again after its mark': {
    file: 'manager/mend/rebuild.ts',
    find: 'if (await isRebuilt(run, entry, signal)) return;',
    replace: '',
    seed: FIRST_LOSING_SEED + 1,
  },
  'a rebuild lists the catalog again before its mark': {
    file: 'manager/mend/rebuild.ts',
    find: `${MARK}\n  if (!mark.isOurs) throw conflict(run, 'another rebuild or a new writer came first');\n  try {\n    await ensureRun(run, entry.runId, signal);\n    if (await isRebuilt(run, entry, signal)) return;`,
    replace: `if (await isRebuilt(run, entry, signal)) return;\n  ${MARK}\n  if (!mark.isOurs) throw conflict(run, 'another rebuild or a new writer came first');\n  try {\n    await ensureRun(run, entry.runId, signal);`,
    seed: FIRST_LOSING_SEED + 37,
  },
  'a rebuild makes no mark': {
    file: 'manager/mend/rebuild.ts',
    find: MARK,
    replace: 'const mark = { isOurs: true };',
    seed: FIRST_LOSING_SEED + 41,
  },
  "a rebuild takes another's mark for its own": {
    file: 'manager/mend/rebuild.ts',
    find: "if (!mark.isOurs) throw conflict(run, 'another rebuild or a new writer came first');",
    replace: '',
    seed: FIRST_LOSING_SEED + 300,
  },
  'a rebuild deletes its mark before its entry is there': {
    file: 'manager/mend/rebuild.ts',
    find: 'const created = await createRecord(run, key, bytes, signal);',
    replace: 'await deleteMark(run);\n    const created = await createRecord(run, key, bytes, signal);',
    seed: FIRST_LOSING_SEED + 171,
  },
  'a decision is acknowledged although the entry that it follows is gone': {
    file: 'manager/catalog/catalog.ts',
    find: 'highestOf(seqs) <= entry.seq && (await this.#row.isNewest(entry, seqs, signal));',
    replace: 'highestOf(seqs) <= entry.seq;',
    seed: FIRST_LOSING_SEED + 451,
  },
  'the newest entry is believed although the one that it follows is gone': {
    file: 'manager/catalog/catalog.ts',
    find: 'if (entry && (await this.#row.isNewest(entry, seqs, signal))) return this.remember(entry, listed);',
    replace: 'if (entry) return this.remember(entry, listed);',
    seed: FIRST_LOSING_SEED + 612,
  },
  'an entry that was the newest is believed although another look shows a higher one': {
    file: 'manager/catalog/catalog-row.ts',
    find: 'if (highestOf(seqs) > seq) return false;',
    replace: 'if (highestOf(seqs) > seq) return true;',
    seed: FIRST_LOSING_SEED + 2149,
  },
  'only the one entry before the newest is expected': {
    file: 'manager/catalog/catalog-row.ts',
    find: 'ROW_LENGTH = 4',
    replace: 'ROW_LENGTH = 2',
    seed: FIRST_LOSING_SEED + 1717,
  },
  'a run is begun where a catalog was lost': {
    file: 'manager/run/lost-catalog.ts',
    find: 'if (seq === 0) throw lostCatalog(run, key, consequence);',
    replace: '',
    seed: FIRST_LOSING_SEED + 11,
  },
};
