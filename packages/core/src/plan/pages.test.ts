import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type CatalogCheckpoint, decodeRecord, idText, manifestKey, type State } from '../format/index.ts';
import { apply } from './apply.ts';
import { committedCheckpoint } from './apply-commit.ts';
import type { Decision } from './decision.ts';
import { closePages, type NewPage, type OpenPage, openPages, PageFault, pageKeyOf } from './pages.ts';
import { nextOlder } from './select.ts';
import {
  allCheckpoints,
  allOfVersion,
  allReferredTo,
  countCheckpoints,
  countLivePath,
  EMPTY_STATE,
  findById,
  findByVersion,
  latestOf,
  newestCheckpoints,
  newestLive,
  onPathAbove,
} from './state.ts';
import type { Decided, Txn } from './transaction.ts';

/** A catalog whose pages are in a map, which replaces the store. */
class PagedCatalog {
  readonly pages = new Map<string, OpenPage['checkpoints']>();
  readonly entryCheckpointsMax: number;
  state: State = EMPTY_STATE;
  seq = 0;
  /** Pages that the last query had to read. */
  lastRead = 0;

  constructor(entryCheckpointsMax: number) {
    this.entryCheckpointsMax = entryCheckpointsMax;
  }

  ask<T>(question: (state: State, open: readonly OpenPage[]) => T): T {
    let open: OpenPage[] = [];
    for (;;) {
      this.lastRead = open.length;
      try {
        return question(openPages(this.state, open), open);
      } catch (error) {
        if (!(error instanceof PageFault)) throw error;
        const again = error.pages.filter((ref) => open.some((page) => page.ref === ref));
        expect(again).toEqual([]);
        open = [...open, ...error.pages.map((ref) => ({ ref, checkpoints: this.#read(pageKeyOf(ref)) }))];
      }
    }
  }

  #read(key: string): OpenPage['checkpoints'] {
    const found = this.pages.get(key);
    if (!found) throw new Error(`${key} is not there`);
    return found;
  }

  decide(txn: Txn): Decision {
    const seq = this.seq + 1;
    const { decision, closed } = this.ask((state, open) => {
      const decision = apply(state, txn, seq);
      if (decision.kind !== 'applied') return { decision, closed: undefined };
      const entry = { runId: 'r', seq, entryCheckpointsMax: this.entryCheckpointsMax };
      return { decision, closed: closePages(decision.state, open, entry) };
    });
    if (!closed) return decision;
    for (const page of closed.pages) this.#create(page);
    this.state = closed.state;
    this.seq = seq;
    return decision;
  }

  #create({ key, bytes }: NewPage): void {
    expect(this.pages.has(key)).toBe(false);
    this.pages.set(key, decodeRecord('catalog-page', bytes, { key }).checkpoints);
  }
}

const DIGEST = new Uint8Array(32).fill(7);

function commitOf(state: State, version: bigint): Decided {
  const checkpoint = { lineage: state.lineage, epoch: state.epoch, version };
  return {
    kind: 'commit',
    checkpoint,
    worldSize: state.worldSize,
    writers: [{ writer: 0, incarnation: 0 }],
    manifestKey: manifestKey(checkpoint, DIGEST),
    manifestSha256: DIGEST,
    sizeBytes: 1,
    fileCount: 1,
    storedBytes: 1,
    metrics: { loss: Number(version) },
    bases: [],
    suspicions: [],
    atMs: 1,
  };
}

type Step = readonly [kind: string, at: number];

/** The decision that a step requests, for the checkpoint at index `at`, counted from the newest. */
function decisionOf(plain: State, [kind, at]: Step, attempt: number): Decided | undefined {
  const { lineage, epoch, checkpoints } = plain;
  if (kind === 'takeover') {
    return { kind, attempt: `job-${attempt}`, attemptDrawn: false, worldSize: 1, reason: '' };
  }
  if (kind === 'commit') return commitOf(plain, plain.top + 1n + BigInt(at % 3));
  const picked = checkpoints.at(-1 - (at % Math.max(1, checkpoints.length)));
  if (!picked) return undefined;
  const { id } = picked;
  const about = { lineage, epoch, reason: 'r' };
  switch (kind) {
    case 'retire':
      return { kind, ...about, checkpoints: [id], atMs: 1, graceMs: 0 };
    case 'remove': {
      const retiring = checkpoints.filter(({ state }) => state === 'RETIRING');
      const retiringSeqs = retiring.map(({ retiringSeq }) => retiringSeq);
      return { kind, ...about, checkpoints: retiring.map((each) => each.id), retiringSeqs };
    }
    case 'unretire':
      return { kind, ...about, checkpoints: [id] };
    case 'pin':
    case 'unpin':
      return { kind, ...about, checkpoint: id, label: 'p' };
    case 'annotate':
      return {
        kind,
        ...about,
        checkpoint: id,
        metrics: { [`m${at % 3}`]: at },
        metadata: { [`n${at % 2}`]: `${at}` },
      };
    case 'verify':
    case 'quarantine':
      return { kind, ...about, checkpoint: id };
    default:
      return { kind: 'rollback', lineage, checkpoint: id, reason: 'r' };
  }
}

const STEP = fc.tuple(
  fc.constantFrom(
    ...['commit', 'commit', 'commit', 'commit', 'commit', 'retire', 'retire', 'remove', 'unretire'],
    ...['pin', 'unpin', 'annotate', 'annotate', 'verify', 'quarantine', 'rollback', 'takeover'],
  ),
  fc.nat(12),
);

const texts = (checkpoints: readonly CatalogCheckpoint[]) => checkpoints.map(({ id }) => idText(id));

/** Every query gives the same answer whether or not the checkpoints are in pages. */
function expectSameAnswers(paged: PagedCatalog, plain: State): void {
  const whole = paged.ask((state) => allCheckpoints(state));
  expect(whole).toEqual(plain.checkpoints);
  expect({ ...paged.state, checkpoints: [], pages: [] }).toEqual({ ...plain, checkpoints: [], pages: [] });
  expect(countCheckpoints(paged.state)).toEqual(countCheckpoints(plain));
  expect(countLivePath(paged.state)).toBe(countLivePath(plain));
  expect(paged.ask(latestOf)).toEqual(latestOf(plain));
  expect(paged.lastRead).toBe(0);
  expect(paged.ask((state) => newestLive(state))).toEqual(newestLive(plain));
  for (const limit of [1, 3, 100]) {
    expect(texts(paged.ask((state) => newestCheckpoints(state, limit)))).toEqual(
      texts(plain.checkpoints.slice(-limit)),
    );
  }
  for (const { id } of plain.checkpoints) {
    expect(paged.ask((state) => findById(state, id))).toEqual(findById(plain, id));
    expect(paged.ask((state) => nextOlder(state, id))).toEqual(nextOlder(plain, id));
    const { version } = id;
    expect(paged.ask((state) => findByVersion(state, version))).toEqual(findByVersion(plain, version));
    expect(paged.ask((state) => allOfVersion(state, version))).toEqual(allOfVersion(plain, version));
    expect(paged.ask((state) => allReferredTo(state, id))).toEqual(allReferredTo(plain, id));
    expect(paged.ask((state) => onPathAbove(state, version))).toEqual(onPathAbove(plain, version));
  }
}

describe('I0: pages change no decision and no answer', () => {
  test('any decisions in any order, with pages of every size, end as they do without pages', () => {
    fc.assert(
      fc.property(fc.array(STEP, { maxLength: 40 }), fc.integer({ min: 2, max: 9 }), (steps, max) => {
        const paged = new PagedCatalog(max);
        let plain = EMPTY_STATE;
        for (const [index, step] of [['takeover', 0] as const, ...steps].entries()) {
          const decided = decisionOf(plain, step, index);
          if (!decided) continue;
          const txn = { ...decided, id: `t${index}` };
          const expected = apply(plain, txn, paged.seq + 1);
          const found = paged.decide(txn);
          expect(found.kind).toBe(expected.kind);
          if (expected.kind !== 'applied') {
            expect(found).toEqual(expected);
            continue;
          }
          plain = expected.state;
          const inEntry = paged.state.checkpoints.length;
          // The latest and `resumedFrom` may come in addition.
          expect(inEntry).toBeLessThanOrEqual(max + 2);
        }
        expectSameAnswers(paged, plain);
      }),
      { numRuns: 150 },
    );
  });
});

/** A catalog of many commits. */
function grown(count: number, max: number): PagedCatalog {
  const paged = new PagedCatalog(max);
  paged.decide({ kind: 'takeover', attempt: 'a', attemptDrawn: false, worldSize: 1, reason: '', id: 't' });
  for (let version = 0; version < count; version++) {
    paged.decide({ ...commitOf(paged.state, BigInt(version)), id: `c${version}` });
  }
  return paged;
}

describe('sizes', () => {
  test('an entry holds at most the newest, and a commit reads no page and writes one for every half of them', () => {
    const paged = grown(1000, 16);
    expect(paged.state.checkpoints.length).toBeLessThanOrEqual(16);
    expect(paged.pages.size).toBeLessThanOrEqual(1000 / 8);
    const { version } = paged.state.latest ?? { version: 0n };
    paged.decide({ ...commitOf(paged.state, version + 1n), id: 'one more' });
    expect(paged.lastRead).toBe(0);
  });

  test('what concerns one old checkpoint reads one page, and changes one reference', () => {
    const paged = grown(1000, 16);
    const { id } = paged.ask((state) => findByVersion(state, 500n)) as CatalogCheckpoint;
    expect(paged.lastRead).toBe(1);
    const before = new Set(paged.state.pages.map(pageKeyOf));
    paged.decide({ kind: 'verify', lineage: 1, epoch: 1, checkpoint: id, reason: '', id: 'v' });
    expect(paged.lastRead).toBe(1);
    expect(paged.state.pages.filter((ref) => !before.has(pageKeyOf(ref)))).toHaveLength(1);
    expect(paged.state.pages.map(({ liveVerifiedCount }) => liveVerifiedCount)).toContain(1);
  });

  test('pages that removal has left nearly empty are joined', () => {
    const paged = grown(1000, 64);
    const decide = (kind: 'retire' | 'remove') => {
      const chosen = paged
        .ask((state) => allCheckpoints(state))
        .filter(
          ({ id, state }) => id.version % 100n !== 0n && state === (kind === 'retire' ? 'LIVE' : 'RETIRING'),
        );
      for (const each of chosen.slice(0, -1)) {
        const about = { lineage: 1, epoch: 1, checkpoints: [each.id], reason: '' };
        const txn =
          kind === 'retire'
            ? { kind, ...about, atMs: 1, graceMs: 0 }
            : { kind, ...about, retiringSeqs: [each.retiringSeq] };
        expect(paged.decide({ ...txn, id: `${kind} ${idText(each.id)}` }).kind).toBe('applied');
      }
    };
    decide('retire');
    decide('remove');
    expect(countCheckpoints(paged.state).count).toBeLessThan(15);
    expect(paged.state.pages.length).toBeLessThanOrEqual(2);
  });

  test('a page is cut by bytes where its checkpoints are large', () => {
    const large = Object.fromEntries(
      Array.from({ length: 400 }, (_, index) => [`${'m'.repeat(200)}${index}`, 1]),
    );
    const paged = new PagedCatalog(1024);
    paged.decide({ kind: 'takeover', attempt: 'a', attemptDrawn: false, worldSize: 1, reason: '', id: 't' });
    for (let version = 0; version < 40; version++) {
      const commit = { ...commitOf(paged.state, BigInt(version)), metrics: large };
      paged.decide({ ...commit, id: `c${version}` } as Txn);
    }
    expect(paged.state.pages.length).toBeGreaterThan(1);
    for (const { count } of paged.state.pages) expect(count).toBeLessThan(8);
    expect(paged.state.checkpoints.length).toBeLessThan(16);
  });
});

describe('a base that lies in a page', () => {
  const id = { lineage: 1, epoch: 1, version: 3n };
  const about = { lineage: 1, epoch: 1, reason: 'r' };
  const commitOn = (paged: PagedCatalog) =>
    paged.decide({ ...commitOf(paged.state, 50n), bases: [id], id: 'refers' } as Txn);

  test('is read there, and the commit that refers to it is accepted', () => {
    const paged = grown(20, 2);
    expect(commitOn(paged).kind).toBe('applied');
    expect(paged.ask((state) => findByVersion(state, 50n))?.bases).toEqual([id]);
  });

  test('was quarantined there: the commit is refused', () => {
    const paged = grown(20, 2);
    paged.decide({ kind: 'quarantine', ...about, checkpoint: id, id: 'q' });
    expect(commitOn(paged)).toMatchObject({ kind: 'rejected', reason: 'base-gone' });
  });

  test('was removed from it: the commit is refused', () => {
    const paged = grown(20, 2);
    paged.decide({ kind: 'retire', ...about, checkpoints: [id], atMs: 1, graceMs: 0, id: 'r' });
    const retired = paged.ask((state) => findById(state, id));
    const retiringSeqs = [retired?.retiringSeq ?? 0];
    paged.decide({ kind: 'remove', ...about, checkpoints: [id], retiringSeqs, id: 'm' });
    expect(paged.ask((state) => findById(state, id))).toBeUndefined();
    expect(commitOn(paged)).toMatchObject({ kind: 'rejected', reason: 'base-gone' });
  });
});

test('what checkpoints are annotated with counts: an entry and a page stay small however much it is', () => {
  const paged = new PagedCatalog(1024);
  paged.decide({ kind: 'takeover', attempt: 'a', attemptDrawn: false, worldSize: 1, reason: '', id: 't' });
  const metadata = { note: 'x'.repeat(4000) };
  for (let version = 0n; version < 400n; version++) {
    const commit = commitOf(paged.state, version);
    paged.decide({ ...commit, id: `c${version}` } as Txn);
    const { id } = paged.state.checkpoints.at(-1) as CatalogCheckpoint;
    const annotate = {
      kind: 'annotate',
      lineage: 1,
      epoch: 1,
      checkpoint: id,
      reason: '',
      metrics: {},
    } as const;
    paged.decide({ ...annotate, metadata, id: `a${version}` });
  }
  expect(paged.state.pages.length).toBeGreaterThan(0);
  for (const { count } of paged.state.pages) expect(count).toBeLessThan(260);
  expect(paged.state.checkpoints.length).toBeLessThan(260);
  expect(paged.ask(allCheckpoints).every((each) => each.annotatedMetadata['note'] === metadata.note)).toBe(
    true,
  );
});

describe('a question that a closed page could answer', () => {
  test('names that page and no other', () => {
    const { state } = grown(100, 4);
    const fault = (question: () => unknown) => {
      try {
        question();
      } catch (error) {
        if (error instanceof PageFault) return error.pages;
      }
      throw new Error('no page was asked for');
    };
    const [oldest] = state.pages;
    expect(fault(() => findById(state, { lineage: 1, epoch: 1, version: 1n }))).toEqual([oldest]);
    expect(fault(() => findByVersion(state, 1n))).toEqual([oldest]);
    expect(fault(() => allCheckpoints(state))).toEqual(state.pages);
    expect(fault(() => newestCheckpoints(state, 5))).toEqual(state.pages.slice(-1));
  });

  test('an id that lies in no page is not there, and a version above the highest is on no path', () => {
    const { state } = grown(100, 4);
    expect(findById(state, { lineage: 2, epoch: 1, version: 1n })).toBeUndefined();
    expect(findByVersion(state, 100n)).toBeUndefined();
  });
});

test('a checkpoint that has been committed is what its page says later, to the last field', () => {
  const paged = grown(20, 2);
  const found = paged.ask((state) => findByVersion(state, 3n));
  const commit = commitOf({ ...EMPTY_STATE, lineage: 1, epoch: 1, worldSize: 1 }, 3n);
  expect(found).toEqual(committedCheckpoint(commit as Parameters<typeof committedCheckpoint>[0]));
});
