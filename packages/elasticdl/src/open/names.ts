/**
 * ElasticDL's names of directories and files. Its code wrote `version-N/variables-i-of-n.ckpt`, for
 * two days with `.chkpt`. Its design document says `version_N` and `.chkpt`. All of these are read.
 * The code's names are written by default, those of the document on request.
 */

import { anyText, CheckpointError, oneOf, shown, wholeNumber } from '@holdfast/core/contract';

export type ShardExtension = 'ckpt' | 'chkpt';

/** `code`: as ElasticDL's code writes it. `document`: as in its design document. */
export type Naming = 'code' | 'document';

const NAMINGS = {
  code: { version: 'version-', extension: 'ckpt' },
  document: { version: 'version_', extension: 'chkpt' },
} as const satisfies Record<Naming, { version: string; extension: ShardExtension }>;

export function extensionOf(naming: Naming): ShardExtension {
  return NAMINGS[naming].extension;
}

export interface ShardName {
  /** The full file name. */
  readonly name: string;
  readonly index: number;
  readonly count: number;
}

const VERSION_MAX = 2n ** 63n - 1n;
const VERSION_FOLDER = /^version[-_](\d+)$/;
/** The single file of a model, as written until 24 November 2019. */
const MODEL_FILE = /^model_v(\d+)\.(?:ckpt|chkpt)$/;
const SHARD_FILE = /^variables-(\d+)-of-(\d+)\.(?:ckpt|chkpt)$/;

/**
 * `null` if the name is not a version directory, or the version is above 2^63 - 1. Leading zeros
 * are ignored, as by Python's `int`.
 */
export function parseVersionFolder(name: string): bigint | null {
  anyText('name', name);
  return versionOf(VERSION_FOLDER.exec(name)?.[1]);
}

/** `null` if the name is not one such as `model_v110.chkpt`, a file with a whole model. */
export function parseModelFile(name: string): bigint | null {
  return versionOf(MODEL_FILE.exec(name)?.[1]);
}

function versionOf(digits: string | undefined): bigint | null {
  if (digits === undefined) return null;
  const version = BigInt(digits);
  return version <= VERSION_MAX ? version : null;
}

/** `version-N`, or the document's `version_N`. `InvalidArgument`: not from 0 to 2^63 - 1. */
export function versionFolder(version: bigint, naming: Naming = 'code'): string {
  oneOf('code', 'document')('naming', naming);
  if (typeof version === 'bigint' && version >= 0n && version <= VERSION_MAX)
    return `${NAMINGS[naming].version}${version}`;
  throw new CheckpointError(
    'InvalidArgument',
    `version ${shown(version)} cannot be written; versions are 0 to ${VERSION_MAX}`,
  );
}

/** `null` if the name is not that of a shard. Does not check that `index` is below `count`. */
export function parseShardFile(name: string): ShardName | null {
  anyText('name', name);
  const match = SHARD_FILE.exec(name);
  const index = Number(match?.[1]);
  const count = Number(match?.[2]);
  return Number.isSafeInteger(index) && Number.isSafeInteger(count) ? { name, index, count } : null;
}

/** `variables-i-of-n.ckpt`. */
export function shardFile(index: number, count: number, extension: ShardExtension = 'ckpt'): string {
  wholeNumber(0)('index', index);
  wholeNumber(1)('count', count);
  oneOf('ckpt', 'chkpt')('extension', extension);
  return `variables-${index}-of-${count}.${extension}`;
}
