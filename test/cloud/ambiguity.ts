/**
 * Every request of a save and its commit, in every cloud, meets everything that can happen between a client and a server which are both
 * well: what is said of the outcome is what is in the bucket.
 */

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AmbiguousCloud } from './ambiguity-clouds.ts';
import {
  type AmbiguityFault,
  DELIVERED_TWICE,
  ERROR_AFTERWARDS,
  LANDS_AFTER_REPEAT,
  LANDS_BEFORE_REPEAT,
  LATE_REPLY,
  LOST_REPLY,
  LOST_REQUEST,
  REFUSED,
} from './ambiguity-faults.ts';
import type { RequestName, Scope } from './ambiguity-line.ts';
import { type Played, type Plot, playStory, type Rival } from './ambiguity-story.ts';
import { LONG_COUNT } from './config.ts';
import type { Place } from './run-truth.ts';
import { WRITER_COUNT } from './said.ts';

/** Runs that are played at the same time. */
const LANES = 4;
/** Of a short run, outside of the last save: so many of the writes meet a fault once, and so many of all requests one of the other rows. */
const WRITES_ONE_IN = 3;
const REST_ONE_IN = 8;
/** Elsewhere than on S3. */
const OTHERS_REST_ONE_IN = 24;
const LAST_WRITER = WRITER_COUNT - 1;
const IS_LONG = LONG_COUNT > 0;
const TIMEOUT_MS = IS_LONG ? 3600_000 : 300_000;
const FAULTS = [
  LOST_REPLY,
  LATE_REPLY,
  DELIVERED_TWICE,
  ERROR_AFTERWARDS,
  REFUSED,
  LANDS_BEFORE_REPEAT,
  LANDS_AFTER_REPEAT,
];

interface Row {
  readonly fault: AmbiguityFault;
  readonly scope: Scope;
  /** What some are told, so that it is known to be judged. */
  readonly leadsTo: string;
}

const rows = (scope: Scope, leadsTo: string, faults: readonly AmbiguityFault[]) =>
  faults.map((fault): Row => ({ fault, scope, leadsTo }));
const ROWS = [
  ...rows('once', 'committed', FAULTS),
  ...rows('always', 'OutcomeUnknown', [LOST_REPLY, LATE_REPLY, REFUSED]),
  // Their reads arrive, so they find out; but a payload that is in the store already has to be sent under another name.
  ...rows('always', 'Unavailable', [DELIVERED_TWICE, ERROR_AFTERWARDS, LANDS_BEFORE_REPEAT]),
  ...rows('gone', 'OutcomeUnknown', [LOST_REPLY, LOST_REQUEST]),
];
/** What a writer is told whose commit it is. */
const RIVALS: readonly (Rival & { leadsTo: readonly string[] })[] = [
  { does: 'commit', when: 'before', leadsTo: ['committed'] },
  { does: 'commit', when: 'after', leadsTo: ['committed'] },
  { does: 'take over', when: 'before', leadsTo: ['Fenced'] },
  { does: 'take over', when: 'after', leadsTo: ['Fenced', 'committed'] },
  { does: 'save', when: 'before', leadsTo: ['Fenced'] },
  { does: 'save', when: 'after', leadsTo: ['Fenced', 'committed'] },
];

/** A request of the story in which all goes well. */
interface Asked {
  readonly writer: number;
  readonly request: RequestName;
  readonly hasParts: boolean;
  /** Of the last writer, which commits: from its first file on. */
  readonly isOfLastSave: boolean;
  /** From its receipt on. */
  readonly isOfCommit: boolean;
}

/** A suite of its own for each cloud, so that they go on side by side. */
export function describeAmbiguity(cloud: AmbiguousCloud): void {
  cloud.describeOnOwn(`ambiguous outcomes on ${cloud.title}`, (server) => {
    let place: Place;
    beforeAll(async () => {
      const bucket = await server().newBucket();
      place = { cloud, bucket, view: await cloud.openBucket(bucket) };
    });
    afterAll(() => place.view.close());

    let asked: Promise<Asked[]> | undefined;
    const allAsked = () => {
      asked ??= requestsOf(place);
      return asked;
    };

    test.each(ROWS)(
      'I7: $scope: $fault.title: each request of a save and its commit',
      async (row) => {
        const played = await playAll(place, plotsOf(cloud, await allAsked(), row));
        expect(played.flatMap(({ outcomes }) => outcomes)).toContain(row.leadsTo);
      },
      TIMEOUT_MS,
    );

    test.each(RIVALS)(
      'I7: each write of a commit meets each fault, and $when it somebody comes to $does',
      async (rival) => {
        const played = await playAll(place, contestedPlotsOf(await allAsked(), rival));
        const outcomes = new Set(played.map((each) => each.outcomes[1]));
        expect([...outcomes].sort()).toEqual(rival.leadsTo);
      },
      TIMEOUT_MS,
    );
  });
}

function plotsOf(cloud: AmbiguousCloud, all: readonly Asked[], row: Row): Plot[] {
  const { fault, scope } = row;
  return all
    .filter(({ request }) => fault.hitsReads || !isRead(request))
    .filter((asked, index) => IS_LONG || isChosen(cloud, row, asked, index))
    .map(({ hasParts, ...each }) => ({ hasParts, target: { ...each, fault, scope } }));
}

/**
 * In a short run all requests of the last save meet all rows; of the others each meets some, and another one than its neighbours. Elsewhere
 * than on S3 the last save meets a fault that stays only where that leads to what the row is about: in its commit, or before it.
 */
function isChosen(cloud: AmbiguousCloud, row: Row, asked: Asked, index: number): boolean {
  const { scope, leadsTo } = row;
  const isOnS3 = cloud.suite === 's3';
  const isDue = isOnS3 || scope === 'once' || asked.isOfCommit === (leadsTo === 'OutcomeUnknown');
  if (asked.isOfLastSave && isDue) return true;
  const restOneIn = isOnS3 ? REST_ONE_IN : OTHERS_REST_ONE_IN;
  const oneIn = scope === 'once' && !isRead(asked.request) ? WRITES_ONE_IN : restOneIn;
  return (index + ROWS.indexOf(row)) % oneIn === 0;
}

/** The writes of the commit. In a short run what is refused, or answered wrongly, is left to the runs without a rival. */
function contestedPlotsOf(all: readonly Asked[], rival: Rival): Plot[] {
  const faults = IS_LONG ? FAULTS : [LOST_REPLY, DELIVERED_TWICE, LANDS_BEFORE_REPEAT];
  const scope = 'once';
  return faults
    .filter(({ isCarriedOut }) => rival.when === 'before' || isCarriedOut)
    .flatMap((fault) =>
      all
        .filter(({ isOfCommit, request }) => isOfCommit && !isRead(request))
        .map((each): Plot => ({ hasParts: false, target: { ...each, fault, scope }, rival })),
    );
}

/** What the writers ask; of the story with parts, what is not asked without. */
async function requestsOf(place: Place): Promise<Asked[]> {
  const plain = await askedIn(place, 'unharmed', false);
  const known = new Set(plain.map(({ writer, request }) => `${writer} ${request.kind}`));
  const withParts = await askedIn(place, 'unharmed-parts', true);
  return [...plain, ...withParts.filter(({ writer, request }) => !known.has(`${writer} ${request.kind}`))];
}

async function askedIn(place: Place, name: string, hasParts: boolean): Promise<Asked[]> {
  const { requests, outcomes } = await playStory(place, name, { hasParts });
  expect(outcomes).toEqual(['delivered', 'committed', 'committed']);
  return requests.flatMap((names, writer) => {
    const from = (shape: RegExp) => {
      const first = names.findIndex(({ kind }) => shape.test(kind));
      return (index: number) => writer === LAST_WRITER && index >= first;
    };
    const isOfLastSave = from(/\/w\d+\//);
    const isOfCommit = from(/\/receipts\/\d/);
    return names.map((request, index) => ({
      writer,
      request,
      hasParts,
      isOfLastSave: isOfLastSave(index),
      isOfCommit: isOfCommit(index),
    }));
  });
}

function isRead({ kind }: RequestName): boolean {
  return kind.startsWith('GET ') || kind.startsWith('HEAD ');
}

let runs = 0;

/** Each lane takes the next, until there is none. Throws what went wrong in all of them. */
async function playAll(place: Place, plots: readonly Plot[]): Promise<Played[]> {
  const rest = plots.values();
  const played: Played[] = [];
  const problems: string[] = [];
  const lane = async () => {
    for (const plot of rest) {
      try {
        const each = await playStory(place, `run-${runs++}`, plot);
        assertOvercome(plot, each);
        played.push(each);
      } catch (error) {
        problems.push(`${describePlot(place.cloud, plot)}: ${String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  if (problems.length > 0) throw new Error(`${problems.length} of ${plots.length}:\n${problems.join('\n')}`);
  return played;
}

/** One fault costs nobody anything. */
function assertOvercome({ target, rival }: Plot, { wasHit, outcomes, messages }: Played): void {
  if (!wasHit) throw new Error('nothing was hit');
  if (target?.scope !== 'once' || rival) return;
  if (outcomes.slice(1).some((outcome) => outcome !== 'committed'))
    throw new Error(`it was not overcome: ${messages.join('; ')}`);
}

function describePlot({ title }: AmbiguousCloud, { target, rival }: Plot): string {
  if (target === undefined) return title;
  const { request, writer, fault, scope } = target;
  const others = rival ? `, and ${rival.when} it somebody comes to ${rival.does}` : '';
  return `${title}: ${request.kind} (${request.index} of writer ${writer}): ${scope}: ${fault.title}${others}`;
}
