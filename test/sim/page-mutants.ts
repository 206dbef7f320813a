/**
 * Mistakes planted into the engine's handling of catalog pages; see engine-mutants.ts. Those that
 * the simulation does not find in thousands of schedules have their own tests:
 * test/manager/pages.test.ts.
 */

import type { EngineMutant } from './mutant.ts';
import { FIRST_PAGING_SEED } from './story.ts';

export const PAGE_MUTANTS: Readonly<Record<string, EngineMutant>> = {
  'an entry is created before its pages': {
    file: 'manager/catalog/sending.ts',
    find: 'await this.#createPages(answer.pages, signal);\n      const sent = await this.#create(this.#entry(head, answer.state), signal);',
    replace:
      'const sent = await this.#create(this.#entry(head, answer.state), signal);\n      await this.#createPages(answer.pages, signal);',
    seed: FIRST_PAGING_SEED,
  },
  'a page is sent and not waited for': {
    file: 'manager/catalog/sending.ts',
    find: 'await this.#createPages(answer.pages, signal);',
    replace: 'this.#createPages(answer.pages, signal).catch(() => undefined);',
    seed: FIRST_PAGING_SEED,
  },
  'whether an id is there is asked of the entry alone': {
    file: 'plan/state.ts',
    find: 'if (!found) demandPages(state.pages.filter((ref) => covers(ref, id)));',
    replace: '',
    seed: FIRST_PAGING_SEED,
  },
  'what was annotated is lost when its page is closed': {
    file: 'plan/pages.ts',
    find: "encodeRecord('catalog-page', { format: undefined, runId, seq, checkpoints });",
    replace:
      "encodeRecord('catalog-page', { format: undefined, runId, seq, checkpoints: checkpoints.map((each) => ({ ...each, annotatedMetadata: {} })) });",
    seed: FIRST_PAGING_SEED + 22,
  },
  'an annotation takes the place of those before': {
    file: 'plan/annotation.ts',
    find: 'metrics: merged(checkpoint.metrics, news.metrics),',
    replace: 'metrics: news.metrics,',
    seed: FIRST_PAGING_SEED + 102,
  },
  'a sweep keeps what the entry lists, and not what its pages list': {
    file: 'manager/keep/sweep.ts',
    find: 'const asked = await run.catalog.ask(({ state }) => allCheckpoints(state), signal, head);',
    replace: 'const asked = { answer: head.state.checkpoints, head };',
    seed: FIRST_PAGING_SEED,
  },
  'a sweep takes a page before its entry is there': {
    file: 'plan/sweep.ts',
    find: 'if (pageSeq <= seq) garbage.push(page);',
    replace: 'if (true) garbage.push(page);',
    seed: FIRST_PAGING_SEED + 360,
  },
  'a page is used for a second number': {
    file: 'manager/catalog/sending.ts',
    find: 'return closePages(decision.state, open, { runId: this.#runId, seq, entryCheckpointsMax });',
    replace:
      'this.firstSeq ??= seq;\n    return closePages(decision.state, open, { runId: this.#runId, seq: this.firstSeq, entryCheckpointsMax });',
    seed: FIRST_PAGING_SEED + 11,
  },
};
