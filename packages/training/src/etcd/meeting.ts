/**
 * The records in etcd about who trains together, and the decisions that follow from them. Only
 * decides, so every worker comes to the same result.
 */

import { CheckpointError } from '@holdfast/core/contract';
import type { EtcdPair } from './client.ts';

export interface WorldSizes {
  readonly minWorkers: number;
  readonly maxWorkers: number;
}

/** The record of a worker; it lasts as long as the worker's lease. */
export interface Member extends WorldSizes {
  /**
   * The worker waits for a world with a number above this. If the current world has such a number,
   * the worker has found its place and trains.
   */
  readonly waitsAbove: number;
}

/** The workers that met last. */
export interface MetWorld {
  /** 0: no workers have met yet. */
  readonly seq: number;
  /** By rank. */
  readonly members: readonly string[];
}

export interface MeetingRecords {
  /** By id; the worker that has been present longest comes first. */
  readonly members: ReadonlyMap<string, Member>;
  readonly world: MetWorld;
  /** Revision of the world's key. */
  readonly worldRevision: bigint;
  readonly isOver: boolean;
}

export class MeetingKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Prefix of all that `meetingOf` needs. */
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

  /** Prefix of the bytes that the ranks of a world exchange, and of their votes. */
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

/** Padded, because etcd sorts keys by their bytes. */
function digits(value: number): string {
  return String(value).padStart(16, '0');
}

/**
 * `pairs`: all keys below `meeting`, oldest first, read at one revision. `Unexpected`: workers did
 * not write this.
 */
export function meetingOf(pairs: readonly EtcdPair[], keys: MeetingKeys): MeetingRecords {
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
    const message = `what etcd has under ${key} was not written by a worker; another program uses this prefix`;
    throw new CheckpointError('Unexpected', message, { cause });
  }
}

function isWaiting(member: Member | undefined, world: MetWorld): boolean {
  return member !== undefined && member.waitsAbove >= world.seq;
}

/** A member of the world is gone, waits for the next world, or is already in it. */
export function hasEnded({ members, world }: MeetingRecords, seq: number): boolean {
  const hasLeft = (id: string) => !members.has(id) || isWaiting(members.get(id), world);
  return world.seq !== seq || world.members.some(hasLeft);
}

/**
 * The workers must meet again. A worker that waits while the world is full changes nothing: it
 * waits in case another leaves.
 */
export function isNewWorldDue(meeting: MeetingRecords, seq: number, { maxWorkers }: WorldSizes): boolean {
  if (meeting.isOver || hasEnded(meeting, seq)) return true;
  const { members, world } = meeting;
  return world.members.length < maxWorkers && [...members.values()].some((each) => isWaiting(each, world));
}

/** Ids in the next world, by rank, if no other worker comes; `null` if it cannot begin yet. */
export function nextMembers(
  { members, world }: MeetingRecords,
  { minWorkers, maxWorkers }: WorldSizes,
): readonly string[] | null {
  const isEverybodyHere = [...members.values()].every((each) => isWaiting(each, world));
  return isEverybodyHere && members.size >= minWorkers ? [...members.keys()].slice(0, maxWorkers) : null;
}

/** `InvalidArgument` if a present worker has another policy. */
export function checkSamePolicy({ members }: MeetingRecords, policy: WorldSizes): void {
  for (const member of members.values()) {
    for (const name of ['minWorkers', 'maxWorkers'] as const) {
      if (member[name] === policy[name]) continue;
      const message = `${name} ${policy[name]}: another worker has ${member[name]}, and all must have the same`;
      throw new CheckpointError('InvalidArgument', message);
    }
  }
}
