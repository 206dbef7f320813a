/** What is written in etcd about who trains together, and what follows from it. Decides only; every worker decides the same. */

import { CheckpointError } from '@holdfast/core/contract';
import type { EtcdPair } from './client.ts';

export interface Policy {
  readonly minWorkers: number;
  readonly maxWorkers: number;
}

/** Of a worker, as long as its lease. */
export interface Member extends Policy {
  /** It waits for a world with a higher number than this. In or below the world that there is: it has found its place, and trains. */
  readonly waitsAbove: number;
}

/** The workers that met last. */
export interface MetWorld {
  /** 0: none has met. */
  readonly seq: number;
  /** By rank. */
  readonly members: readonly string[];
}

export interface Meeting {
  /** By id; who has been there longest comes first. */
  readonly members: ReadonlyMap<string, Member>;
  readonly world: MetWorld;
  /** Of the world's key. */
  readonly worldRevision: bigint;
  readonly isOver: boolean;
}

export class MeetingKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Before all that `meetingOf` is to be given. */
  get meeting(): string {
    return `${this.#prefix}/meeting/`;
  }

  get world(): string {
    return `${this.meeting}world`;
  }

  get over(): string {
    return `${this.meeting}over`;
  }

  get members(): string {
    return `${this.meeting}members/`;
  }

  /** Of what the ranks of a world bring, and of what they agree on. */
  group(worldSeq: number): string {
    return `${this.#prefix}/group/${digits(worldSeq)}/`;
  }

  gathering(worldSeq: number, callSeq: number): string {
    return `${this.group(worldSeq)}gather/${digits(callSeq)}/`;
  }

  brought(worldSeq: number, callSeq: number, rank: number): string {
    return `${this.gathering(worldSeq, callSeq)}${digits(rank)}`;
  }

  vote(worldSeq: number, voteSeq: number): string {
    return `${this.group(worldSeq)}vote/${digits(voteSeq)}`;
  }
}

/** Keys are in the order of their bytes. */
function digits(value: number): string {
  return String(value).padStart(16, '0');
}

/** `pairs`: all that is there, oldest first, from one moment. `Unexpected`: it is not what workers write. */
export function meetingOf(pairs: readonly EtcdPair[], keys: MeetingKeys): Meeting {
  const members = new Map<string, Member>();
  let world: MetWorld = { seq: 0, members: [] };
  let worldRevision = 0n;
  let isOver = false;
  for (const { key, value, modRevision } of pairs) {
    if (key.startsWith(keys.members)) members.set(key.slice(keys.members.length), parsed<Member>(key, value));
    else if (key === keys.over) isOver = true;
    else if (key === keys.world) {
      world = parsed<MetWorld>(key, value);
      worldRevision = modRevision;
    }
  }
  return { members, world, worldRevision, isOver };
}

function parsed<T>(key: string, value: Uint8Array): T {
  try {
    return JSON.parse(Buffer.from(value).toString('utf8')) as T;
  } catch (cause) {
    const message = `what etcd has under ${key} was not written by a worker; the prefix is another one's`;
    throw new CheckpointError('Unexpected', message, { cause });
  }
}

function isWaiting(member: Member | undefined, world: MetWorld): boolean {
  return member !== undefined && member.waitsAbove >= world.seq;
}

/** One of those who met is gone, or waits for the next world, or has it. */
export function hasEnded({ members, world }: Meeting, seq: number): boolean {
  const hasLeft = (id: string) => !members.has(id) || isWaiting(members.get(id), world);
  return world.seq !== seq || world.members.some(hasLeft);
}

/** Those who train are to meet anew. Whoever waits while there is no room for one more does so in case that somebody leaves. */
export function isNewWorldDue(meeting: Meeting, seq: number, { maxWorkers }: Policy): boolean {
  if (meeting.isOver || hasEnded(meeting, seq)) return true;
  const { members, world } = meeting;
  return world.members.length < maxWorkers && [...members.values()].some((each) => isWaiting(each, world));
}

/** Who is in the next world, by rank, if nobody else comes; `null`: not yet. */
export function nextMembers(
  { members, world }: Meeting,
  { minWorkers, maxWorkers }: Policy,
): readonly string[] | null {
  const isEverybodyHere = [...members.values()].every((each) => isWaiting(each, world));
  return isEverybodyHere && members.size >= minWorkers ? [...members.keys()].slice(0, maxWorkers) : null;
}

/** `InvalidArgument` if one of those that are there wants another policy. */
export function checkSamePolicy({ members }: Meeting, policy: Policy): void {
  for (const member of members.values()) {
    for (const name of ['minWorkers', 'maxWorkers'] as const) {
      if (member[name] === policy[name]) continue;
      const message = `${name} ${policy[name]}: a worker that is there has ${member[name]}, and all are to have the same`;
      throw new CheckpointError('InvalidArgument', message);
    }
  }
}
