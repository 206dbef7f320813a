/**
 * A worker's requests to the server. Headers come from other processes, so every field is checked.
 */

import { CheckpointError } from '@holdfast/core/contract';
import type { Frame } from './frames.ts';
import { checkPolicy, type Policy } from './policy.ts';
import type { Contribution, GroupCall } from './running-world.ts';

export type Request = { readonly id: number } & (
  | { readonly type: 'join'; readonly policy: Policy }
  | { readonly type: 'rendezvous' | 'finish' }
  | { readonly type: 'vote'; readonly seq: number }
  | { readonly type: 'gather'; readonly contribution: Contribution }
);

/** `InvalidArgument` names the field. */
export function requestOf({ header, body }: Frame): Request {
  const id = countOf(header, 'id');
  switch (header['type']) {
    case 'join':
      return { id, type: 'join', policy: policyOf(header) };
    case 'rendezvous':
    case 'finish':
      return { id, type: header['type'] };
    case 'vote':
      return { id, type: 'vote', seq: countOf(header, 'seq') };
    case 'gather':
      return {
        id,
        type: 'gather',
        contribution: { call: groupCallOf(header['call']), seq: countOf(header, 'seq'), bytes: body },
      };
    default:
      throw new CheckpointError('InvalidArgument', `a message of type ${String(header['type'])}`);
  }
}

function policyOf(header: Frame['header']): Policy {
  const policy = {
    minWorkers: countOf(header, 'minWorkers'),
    maxWorkers: countOf(header, 'maxWorkers'),
    timeoutMs: countOf(header, 'timeoutMs'),
  };
  checkPolicy(policy);
  return policy;
}

function countOf(header: Frame['header'], name: string): number {
  const value = header[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new CheckpointError(
    'InvalidArgument',
    `${name} of a message must be a whole number, not ${String(value)}`,
  );
}

function groupCallOf(value: unknown): GroupCall {
  if (value === 'allGather' || value === 'barrier') return value;
  throw new CheckpointError('InvalidArgument', `a group call ${String(value)}`);
}
