/**
 * Two writers save a version one after the other, each over its own line. On one of the lines a
 * request meets a fault. Then the first writer asks again. The test compares each reported result
 * with the bucket, at once and at the end.
 */

import { createCheckpointManager, type RunManager, type SaveOptions } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { checkInvariants, SETTINGS, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import type { SeenRequest } from '../scripted/scripted-server.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { type Ambiguity, Line, type Meanwhile, type RequestName } from './ambiguity-line.ts';
import { runUri } from './cut-run.ts';
import { NOTHING, type Place, truthOf } from './run-truth.ts';
import { viewOfRun } from './run-view.ts';
import {
  judge,
  judgeLater,
  judgeRival,
  missingIn,
  outcomeOf,
  type Said,
  saidOf,
  WRITER_COUNT,
} from './said.ts';

const ATTEMPT = 'job';
const RIVAL = 'rival';
const NEXT = 'next-job';
const VERSION = 1n;
const SMALL_BYTES = 100;
/** A remainder after full parts, so that the file has more than one part for any part size. */
const REST_BYTES = 70_000;

/** The writer and its request that meets the fault. */
export interface Target extends Ambiguity {
  readonly writer: number;
}

/** What another process does while the request is on its way. */
export interface Rival {
  /**
   * `commit`: a survivor commits the version with the files of these writers. `take over`: a new
   * attempt takes over the run. `save`: the new attempt also saves the version with its own files.
   */
  readonly does: 'commit' | 'take over' | 'save';
  readonly when: Meanwhile['when'];
}

export interface Plot {
  /** The first writer has a file that it sends in parts. */
  readonly hasParts: boolean;
  /** `undefined`: no fault. */
  readonly target?: Target | undefined;
  readonly rival?: Rival | undefined;
}

export interface Played {
  /** For each writer, the requests on its line. */
  readonly requests: readonly (readonly RequestName[])[];
  readonly wasHit: boolean;
  /**
   * Reported results: of the first writer, of the second, and of the first writer's second call.
   */
  readonly outcomes: readonly string[];
  readonly messages: readonly string[];
}

/**
 * Plays the story in a new run of this name. Throws an error with the invariant if a reported
 * result is wrong.
 */
export async function playStory(place: Place, name: string, plot: Plot): Promise<Played> {
  const story = await AmbiguityStory.open(place, name, plot);
  return story.play(plot);
}

class AmbiguityStory {
  readonly #place: Place;
  readonly #name: string;
  readonly #lines: readonly Line[];
  readonly #writers: readonly RunManager[];
  readonly #largeBytes: number;
  readonly #said: Said[] = [];
  #rivalOutcome: string | undefined;
  /** The state after the last save. */
  #truth = NOTHING;

  private constructor(
    place: Place,
    name: string,
    parts: { lines: Line[]; writers: RunManager[]; largeBytes: number },
  ) {
    this.#place = place;
    this.#name = name;
    this.#lines = parts.lines;
    this.#writers = parts.writers;
    this.#largeBytes = parts.largeBytes;
  }

  static async open(place: Place, name: string, { hasParts, target, rival }: Plot): Promise<AmbiguityStory> {
    const { cloud, bucket } = place;
    const lines: Line[] = [];
    const writers: RunManager[] = [];
    let largeBytes = SMALL_BYTES;
    for (let index = 0; index < WRITER_COUNT; index++) {
      const line = await Line.open(cloud, bucket.endpoint ?? '', kindsOf(place, name));
      const store = await openStore(runUri(bucket, name, line.endpoint), bucket.env);
      const { minPartBytes } = store.capabilities;
      if (hasParts) largeBytes = Math.max(SETTINGS.partSizeBytesMin, minPartBytes) + REST_BYTES;
      const { clock } = line;
      const writer = { index, count: WRITER_COUNT };
      lines.push(line);
      writers.push(createCheckpointManager({ store, attempt: ATTEMPT, writer, settings: SETTINGS, clock }));
    }
    const story = new AmbiguityStory(place, name, { lines, writers, largeBytes });
    const hitLine = target && lines[target.writer];
    if (hitLine) hitLine.ambiguity = target;
    if (hitLine && rival) hitLine.meanwhile = { when: rival.when, act: () => story.#compete(rival) };
    return story;
  }

  async play({ target, rival }: Plot): Promise<Played> {
    await this.#save(0, { noWait: true });
    await this.#save(1);
    if (target?.scope === 'gone' && this.#wasHit) await this.#recoverLines();
    // After a takeover every call of the old attempt's writers is rejected, so the repeat would
    // show nothing.
    if (rival === undefined || rival.does === 'commit') await this.#save(0);
    await this.#recoverLines();
    for (const writer of this.#writers) await writer.close();
    await this.#judgeInTheEnd();
    return {
      requests: this.#lines.map(({ names }) => names),
      wasHit: this.#wasHit,
      outcomes: this.#said.map(({ outcome }) => outcome),
      messages: this.#said.map(({ message }) => message),
    };
  }

  get #wasHit(): boolean {
    return this.#lines.some(({ hitCount }) => hitCount > 0);
  }

  async #recoverLines(): Promise<void> {
    for (const line of this.#lines) await line.recover();
  }

  async #save(writer: number, options: Pick<SaveOptions, 'noWait'> = {}): Promise<void> {
    const manager = this.#writers[writer];
    const line = this.#lines[writer];
    if (manager === undefined || line === undefined) throw new Error(`there is no writer ${writer}`);
    const buffers = this.#files(ATTEMPT, VERSION, writer);
    const { signal } = line.overrun;
    const said = await saidOf(
      writer,
      manager.save({ version: VERSION, buffers, timeoutMs: 0, signal, ...options }),
    );
    this.#said.push(said);
    const before = this.#truth;
    this.#truth = await truthOf(this.#place, this.#name, VERSION);
    judge(said, { before, now: this.#truth });
    if (said.outcome !== 'OutcomeUnknown') return;
    await using observer = await this.#openManager();
    await this.#judgeLater(said, observer);
  }

  #judgeLater(said: Said, observer: RunManager): Promise<void> {
    return judgeLater(said, { now: this.#truth, view: this.#place.view }, observer);
  }

  async #compete({ does }: Rival): Promise<void> {
    await using rival = await this.#openManager(does === 'commit' ? undefined : RIVAL);
    if (does === 'take over') {
      await rival.join();
      return;
    }
    this.#rivalOutcome = await outcomeOf(
      does === 'save'
        ? rival.save({ version: VERSION, buffers: this.#files(RIVAL, VERSION, 0) })
        : rival.commit({ version: VERSION }),
    );
  }

  /**
   * All late requests have arrived by now. A new attempt asks about writers with an unknown
   * outcome. Then it must be able to continue.
   */
  async #judgeInTheEnd(): Promise<void> {
    await using next = await this.#openManager(NEXT);
    this.#truth = await truthOf(this.#place, this.#name, VERSION);
    if (this.#rivalOutcome !== undefined) judgeRival(this.#rivalOutcome, this.#truth);
    for (const said of this.#said) await this.#judgeLater(said, next);
    if (this.#said.some(({ outcome }) => outcome === 'OutcomeUnknown')) await this.#settle(next);
    if (this.#said.some(({ outcome }) => outcome !== 'committed' && outcome !== 'delivered')) {
      const version = VERSION + 1n;
      await next.save({ version, buffers: this.#files(NEXT, version, 0) });
    }
    const view = await viewOfRun(this.#place.cloud, this.#run);
    await checkInvariants(view, this.#told(), (...whose) => this.#files(...whose));
  }

  /**
   * Ends the doubt by `commit`, which either succeeds or names the writers that have not delivered.
   */
  async #settle(next: RunManager): Promise<void> {
    const isReady = missingIn(this.#truth).length === 0;
    const expected = isReady ? 'committed' : 'Incomplete';
    const outcome = await outcomeOf(next.commit({ version: VERSION }));
    if (outcome !== expected)
      throw new Error(`I10: afterwards a commit ends as ${outcome} instead of ${expected}`);
    this.#truth = await truthOf(this.#place, this.#name, VERSION);
    for (const said of this.#said) await this.#judgeLater(said, next);
  }

  #told(): Told[] {
    return this.#said.map(({ writer, outcome }) => ({ attempt: ATTEMPT, writer, version: VERSION, outcome }));
  }

  /** The run at its direct address, without a line. */
  get #run(): TestBucket {
    const { bucket } = this.#place;
    return { ...bucket, uri: runUri(bucket, this.#name, bucket.endpoint ?? '') };
  }

  async #openManager(attempt?: string): Promise<RunManager> {
    const { uri, env } = this.#run;
    const store = await openStore(uri, env);
    return createCheckpointManager({ store, attempt, settings: SETTINGS });
  }

  #files(attempt: string, version: bigint, writer: number): Record<string, Uint8Array> {
    const isLarge = attempt === ATTEMPT && writer === 0;
    return filesOf(attempt, version, writer, isLarge ? this.#largeBytes : SMALL_BYTES);
  }
}

const made = new Map<string, Record<string, Uint8Array>>();

function filesOf(
  attempt: string,
  version: bigint,
  writer: number,
  largeBytes: number,
): Record<string, Uint8Array> {
  const name = `${attempt}/${version}/${writer}/${largeBytes}`;
  const files = made.get(name) ?? largeFilesOf(attempt, version, writer, largeBytes);
  made.set(name, files);
  return files;
}

/** Names the kind of each request by those parts that are equal in every run. */
function kindsOf({ cloud, bucket }: Place, name: string): (request: SeenRequest) => string {
  return (request) => {
    const text = decodeURIComponent(request.target) + cloud.subjectOf(request);
    const kind = text
      .replaceAll(`${name}/`, '')
      .replaceAll(`/${bucket.bucket}`, '')
      .replace(/uploadId=[^&]*/, 'uploadId=#')
      // In Azure this id contains the id of the upload and the number of the part.
      .replace(/(?<=blockid=)[^&]*/, (id) => Buffer.from(id, 'base64').toString('latin1'))
      .replace(UUID, '#')
      .replace(/-[0-9a-f]{6,}\//g, '-#/')
      .replace(/[0-9a-f]{8,}/g, '#');
    return `${request.method} ${kind}`;
  };
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
