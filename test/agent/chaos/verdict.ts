/** Compares what the ranks did and were told with what a fresh agent finds. */

import { type Life, MOMENTS_MAX, type Told } from './job.ts';

/** A file of a committed version. `numbers`: those of its words, which are all the same. */
export interface FoundFile {
  readonly name: string;
  readonly numbers: ReadonlySet<number>;
}

export interface FoundVersion {
  readonly version: number;
  readonly files: readonly FoundFile[];
}

export interface Facts {
  readonly rankCount: number;
  readonly lives: readonly Pick<Life, 'rank' | 'attempt' | 'mark' | 'process'>[];
  readonly told: readonly Told[];
  readonly found: readonly FoundVersion[];
  /** Versions that the agents' logs call committed. */
  readonly logged: readonly number[];
  /** How much later than its limit a call may end. */
  readonly slackMs: number;
}

/** What a client may be told while agents and ranks are killed. Everything else is a mistake. */
const CODES = new Set([
  ...['AgentUnavailable', 'Unavailable', 'TimedOut', 'Throttled', 'Incomplete', 'OutcomeUnknown'],
  ...['Fenced', 'Conflict'],
]);

export function breachesOf(facts: Facts): string[] {
  return [
    ...lostCommits(facts),
    ...facts.found.flatMap((version) => wrongVersion(facts, version)),
    ...wrongLoads(facts),
    ...lateCalls(facts),
    ...oddAnswers(facts),
  ];
}

/** Versions whose parts were all staged by the last lives of the last attempt. */
export function stagedByAll({
  lives,
  told,
  rankCount,
}: Pick<Facts, 'lives' | 'told' | 'rankCount'>): number[] {
  const attempt = Math.max(...lives.map((life) => life.attempt));
  const last = new Map(lives.map((life, index) => [life.rank, index]));
  const versions: number[] = [];
  const has = (life: number, event: string, version: number) =>
    told.some((one) => one.life === life && one.event === event && one.version === version);
  const first = Math.min(...told.filter(({ event }) => event === 'staged').map(({ version = 0 }) => version));
  for (let version = first; ; version += 1) {
    for (let rank = 0; rank < rankCount; rank += 1) {
      const life = last.get(rank);
      if (life === undefined || lives[life]?.attempt !== attempt) return versions;
      if (!has(life, 'staged', version) || has(life, 'ended', version)) return versions;
    }
    versions.push(version);
  }
}

function lostCommits({ told, lives, found, logged }: Facts): string[] {
  const missing = logged.filter((version) => !found.some((one) => one.version === version));
  const breaches = missing.map((version) => `an agent said that it committed version ${version}: it is lost`);
  for (const { event, life, version, number } of told) {
    if (event !== 'committed') continue;
    const rank = lives[life]?.rank;
    const files = found
      .find((one) => one.version === version)
      ?.files.filter(({ name }) => rankOf(name) === rank);
    if (files === undefined)
      breaches.push(`life ${life} was told that version ${version} is committed: it is lost`);
    else if (!files.every(({ numbers }) => numbers.has(number ?? -1)))
      breaches.push(
        `life ${life} was told that version ${version} is committed, with ${number}: it has other bytes`,
      );
  }
  return breaches;
}

function wrongVersion({ rankCount, lives, told }: Facts, { version, files }: FoundVersion): string[] {
  const breaches: string[] = [];
  const attempts = new Set<number>();
  for (let rank = 0; rank < rankCount; rank += 1) {
    const own = files.filter(({ name }) => rankOf(name) === rank);
    const numbers = new Set(own.flatMap((file) => [...file.numbers]));
    const [number = -1] = numbers;
    if (own.length !== 2) breaches.push(`version ${version} has ${own.length} files of rank ${rank}`);
    if (numbers.size > 1) breaches.push(`version ${version}, rank ${rank}: bytes of ${numbers.size} moments`);
    const life = lives.findIndex(({ mark }) => mark === Math.floor(number / MOMENTS_MAX));
    if (life === -1 || lives[life]?.rank !== rank) {
      breaches.push(`version ${version}, rank ${rank}: bytes that this rank never had`);
      continue;
    }
    attempts.add(lives[life]?.attempt ?? 0);
    const isSealed = told.some(
      (one) => one.event === 'seal' && one.life === life && one.version === version && one.number === number,
    );
    if (!isSealed) breaches.push(`version ${version}, rank ${rank}: its writer never sealed these bytes`);
  }
  if (attempts.size > 1) breaches.push(`version ${version} has parts of ${attempts.size} attempts`);
  return breaches;
}

/** A rank that starts loads what is there at the end, too. */
function wrongLoads({ told, lives, found }: Facts): string[] {
  const breaches: string[] = [];
  for (const { event, life, version, numbers = [] } of told) {
    if (event !== 'loaded') continue;
    const rank = lives[life]?.rank;
    const file = found
      .find((one) => one.version === version)
      ?.files.find(({ name }) => rankOf(name) === rank);
    const [number = -1] = numbers;
    if (numbers.length !== 1)
      breaches.push(`life ${life} loaded bytes of several moments of version ${version}`);
    else if (!file?.numbers.has(number))
      breaches.push(`life ${life} loaded other bytes of version ${version}`);
  }
  return breaches;
}

/** The time in which the rank itself was frozen does not count. */
export function lateness({ lives, told }: Pick<Facts, 'lives' | 'told'>): { text: string; lateMs: number }[] {
  return lives.flatMap(({ process }, life) => {
    const own = told.filter((one) => one.life === life);
    return own.flatMap((call, index) => {
      if (call.event !== 'call') return [];
      const answer = own.slice(index).find(({ event, name }) => event === 'answer' && name === call.name);
      const endMs = answer?.atMs ?? process.ending?.atMs ?? Number.POSITIVE_INFINITY;
      const frozenMs = process.frozen
        .map(({ fromMs, untilMs }) => Math.min(untilMs, endMs) - Math.max(fromMs, call.atMs))
        .reduce((sum, ms) => sum + Math.max(0, ms), 0);
      const tookMs = endMs - call.atMs - frozenMs;
      const text = `life ${life}: the call ${call.name} lasted ${Math.round(tookMs)} ms, its limit is ${call.limitMs} ms`;
      return [{ text, lateMs: tookMs - (call.limitMs ?? 0) }];
    });
  });
}

function lateCalls(facts: Facts): string[] {
  return lateness(facts)
    .filter(({ lateMs }) => lateMs > facts.slackMs)
    .map(({ text }) => text);
}

function oddAnswers({ told, lives }: Facts): string[] {
  const odd = told.filter(({ code }) => code !== undefined && !CODES.has(code));
  const ended = lives.flatMap(({ process: { ending, isMeantToEnd } }, life) =>
    ending && !isMeantToEnd && (ending.exitCode !== 0 || ending.signal)
      ? [`life ${life} ended with ${ending.exitCode ?? ending.signal}`]
      : [],
  );
  return [...odd.map(({ life, code, message }) => `life ${life} was told ${code}: ${message}`), ...ended];
}

/** The names end with the rank: `model-1.safetensors`, `optimizer-1`. */
function rankOf(name: string): number {
  return Number(/-(\d+)/.exec(name)?.[1]);
}
