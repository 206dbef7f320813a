/** Versions and checkpoint ids: int64 from 0 on, never rounded. */

import {
  CheckpointError,
  type CheckpointId,
  type CheckpointReference,
  notAccepted,
  shown,
  type VersionInput,
} from '../contract/index.ts';
import { UINT32_MAX } from './scalars.ts';

/** 2^63 - 1: int64, as the records hold it. */
export const VERSION_MAX = 2n ** 63n - 1n;

const ACCEPTED = `a version is a whole number from 0 to ${VERSION_MAX}`;

/** `InvalidArgument` if `input` is not a bigint or safe integer from 0 to 2^63 - 1. */
export function toVersion(input: VersionInput): bigint {
  if (typeof input === 'number') {
    if (!Number.isInteger(input)) throw refusal(String(input), ACCEPTED);
    if (!Number.isSafeInteger(input)) {
      throw refusal(
        String(input),
        `${ACCEPTED}; above ${Number.MAX_SAFE_INTEGER} it must be given as a bigint, or it would be rounded`,
      );
    }
    return toVersion(BigInt(input));
  }
  if (typeof input !== 'bigint') throw refusal(shown(input), `${ACCEPTED}, as a bigint or a number`);
  if (input < 0n || input > VERSION_MAX) throw refusal(String(input), ACCEPTED);
  return input;
}

/**
 * A version from decimal digits, as on a command line. No sign, space or leading zero.
 * `InvalidArgument` otherwise.
 */
export function parseVersion(text: string): bigint {
  if (typeof text !== 'string' || !/^(?:0|[1-9][0-9]{0,18})$/.test(text))
    throw refusal(shown(text), `${ACCEPTED}, in decimal digits without leading zeros`);
  return toVersion(BigInt(text));
}

/**
 * A checked `CheckpointReference`. Without a lineage it means the checkpoint of this version on the
 * path to the latest.
 */
export interface Reference {
  readonly version: bigint;
  readonly lineage?: number;
}

/** `InvalidArgument` if the version is invalid, or the lineage is not a whole number from 1 on. */
export function toReference(input: CheckpointReference): Reference {
  if (typeof input !== 'object' || input === null) return { version: toVersion(input) };
  const version = toVersion(input.version);
  const { lineage } = input;
  if (Number.isSafeInteger(lineage) && lineage >= 1 && lineage <= UINT32_MAX) return { version, lineage };
  throw new CheckpointError(
    'InvalidArgument',
    `lineage ${shown(lineage)} cannot be used: a lineage is a whole number from 1 to ${UINT32_MAX}`,
  );
}

function refusal(found: string, accepted: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `version ${found} cannot be used: ${accepted}`);
}

export function idEquals(a: CheckpointId, b: CheckpointId): boolean {
  return a.version === b.version && a.lineage === b.lineage && a.epoch === b.epoch;
}

/** "{lineage}.{epoch}.{version}": for messages, and as a key of maps. */
export function idText(id: CheckpointId): string {
  if (typeof id?.version !== 'bigint') throw notAccepted('the id', id, 'the id of a checkpoint');
  return `${id.lineage}.${id.epoch}.${id.version}`;
}
