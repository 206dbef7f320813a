/**
 * Every request of a save and its commit, in every cloud, meets every fault that can happen between
 * a healthy client and a healthy server. The reported outcome must match the bucket.
 */

import { afterEach, beforeEach, expect, test } from 'vitest';
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

/** Number of runs at the same time. */
const LANES = 4;
/**
 * Samples for a short run. One in this many `writes` before the last save meets each fault of scope
 * `once`. `rest` applies to all other pairs of a request and a row, except those of the last save.
 * `last` applies to faults that stay, at requests of the last save.
 */
const ON_S3 = { writes: 12, rest: 48, last: 1 };
const ON_OTHERS = { writes: 18, rest: 72, last: 2 };
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
  /** An outcome that some runs must report, so that the test is known to judge it. */
  readonly leadsTo: string;
}

const rows = (scope: Scope, leadsTo: string, faults: readonly AmbiguityFault[]) =>
  faults.map((fault): Row => ({ fault, scope, leadsTo }));
const ROWS = [
  ...rows('once', 'committed', FAULTS),
  ...rows('always', 'OutcomeUnknown', [LOST_REPLY, LATE_REPLY, REFUSED]),
  // Their reads arrive, so the process learns the outcome. But a payload that exists already must
  // be sent again under another name.
  ...rows('always', 'Unavailable', [DELIVERED_TWICE, ERROR_AFTERWARDS, LANDS_BEFORE_REPEAT]),
  ...rows('gone', 'OutcomeUnknown', [LOST_REPLY, LOST_REQUEST]),
];
/** The outcomes that the committing writer may report. */
const RIVALS: readonly (Rival & { leadsTo: readonly string[] })[] = [
  { does: 'commit', when: 'before', leadsTo: ['committed'] },
  { does: 'commit', when: 'after', leadsTo: ['committed'] },
  { does: 'take over', when: 'before', leadsTo: ['Fenced'] },
  { does: 'take over', when: 'after', leadsTo: ['Fenced', 'committed'] },
  { does: 'save', when: 'before', leadsTo: ['Fenced'] },
  { does: 'save', when: 'after', leadsTo: ['Fenced', 'committed'] },
];

/** A request of the story without faults. */
interface Asked {
  readonly writer: number;
  readonly request: RequestName;
  readonly hasParts: boolean;
  /** From the first file of the last writer on, which commits. */
  readonly isOfLastSave: boolean;
  /** From the last writer's receipt on. */
  readonly isOfCommit: boolean;
}

/** One suite for each cloud, so that the suites run in parallel. */
export function describeAmbiguity(cloud: AmbiguousCloud): void {
  cloud.describeOnOwn(`ambiguous outcomes on ${cloud.title}`, (server) => {
    let place: Place;
    // fake-gcs-server becomes slower as its bucket fills.
    beforeEach(async () => {
      const bucket = await server().newBucket();
      place = { cloud, bucket, view: await cloud.openBucket(bucket) };
    });
    afterEach(() => place.view.close());

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
      'I7: each write of a commit meets each fault, and $when it another process comes to $does',
      async (rival) => {
        const played = await playAll(place, contestedPlotsOf(cloud, await allAsked(), rival));
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
 * Selects the samples of a short run. On S3 all requests of the last save meet all rows. On other
 * clouds only those do from which a row leads to its outcome: those of the commit, or those before
 * it, and every second one for a fault that stays. Each other request meets some rows, and
 * neighbours meet different ones. For a single fault, a cloud that is about parts adds only their
 * requests, and repeats the commit.
 */
function isChosen(cloud: AmbiguousCloud, row: Row, asked: Asked, index: number): boolean {
  const { scope, leadsTo } = row;
  const isNew = asked.hasParts || asked.isOfCommit;
  if (cloud.isAboutParts && scope === 'once' && !isNew) return false;
  const isOnS3 = cloud.suite === 's3';
  const isDue = isOnS3 || asked.isOfCommit === (leadsTo !== 'Unavailable');
  const isOfLastSave = asked.isOfLastSave && isDue;
  if (isOfLastSave && (scope === 'once' || !asked.isOfCommit)) return true;
  const { writes, rest, last } = isOnS3 ? ON_S3 : ON_OTHERS;
  const other = scope === 'once' && !isRead(asked.request) ? writes : rest;
  return (index + ROWS.indexOf(row)) % (isOfLastSave ? last : other) === 0;
}

/**
 * The writes of the commit. A short run tests rejected requests and wrong answers only without a
 * rival, and doubled ones with a rival only on S3.
 */
function contestedPlotsOf(cloud: AmbiguousCloud, all: readonly Asked[], rival: Rival): Plot[] {
  const doubled = cloud.suite === 's3' ? [DELIVERED_TWICE] : [];
  const faults = IS_LONG ? FAULTS : [LOST_REPLY, ...doubled, LANDS_BEFORE_REPEAT];
  const scope = 'once';
  return faults
    .filter(({ isCarriedOut }) => rival.when === 'before' || isCarriedOut)
    .flatMap((fault) =>
      all
        .filter(({ isOfCommit, request }) => isOfCommit && !isRead(request))
        .map((each): Plot => ({ hasParts: false, target: { ...each, fault, scope }, rival })),
    );
}

/** All requests of the writers. The story with parts adds only those that the plain story lacks. */
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

/** Each lane plays the next plot until none is left. Throws all errors together. */
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

/** A fault that happens once must cost no writer anything. */
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
