/**
 * JSON spelling of each scalar type of a record, by proto3's rules. Each value has exactly one
 * spelling, and no other is accepted.
 */

import type { FieldSchema } from '@holdfast/wire';
import { ENUMS } from '@holdfast/wire';

export interface ScalarCodec {
  /** Description of the accepted values. */
  readonly accepted: string;
  /** A new object each time, if the value is mutable. */
  default(): unknown;
  isDefault(value: unknown): boolean;
  /** JSON text; `undefined` if `value` is not of this type. */
  toJson(value: unknown): string | undefined;
  /** From a parsed JSON value; `undefined` if it is not of this type. */
  fromJson(json: unknown): unknown;
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
export const UINT32_MAX = 2 ** 32 - 1;
const INT64_TEXT = /^(?:0|-?[1-9][0-9]{0,18})$/;

export function isUint32(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= UINT32_MAX;
}

export function numberToJson(value: number): string | undefined {
  if (!Number.isFinite(value)) return undefined;
  return Object.is(value, -0) ? '-0' : String(value);
}

export function stringToJson(value: string): string | undefined {
  return value.isWellFormed() ? JSON.stringify(value) : undefined;
}

/** Shared by all records: an empty array has nothing that a caller could change. */
const NO_BYTES = new Uint8Array(0);

const string: ScalarCodec = {
  accepted: 'a string that UTF-8 can express',
  default: () => '',
  isDefault: (value) => value === '',
  toJson: (value) => (typeof value === 'string' ? stringToJson(value) : undefined),
  fromJson: (json) => (typeof json === 'string' && json.isWellFormed() ? json : undefined),
};

const bool: ScalarCodec = {
  accepted: 'true or false',
  default: () => false,
  isDefault: (value) => value === false,
  toJson: (value) => (typeof value === 'boolean' ? String(value) : undefined),
  fromJson: (json) => (typeof json === 'boolean' ? json : undefined),
};

const bytes: ScalarCodec = {
  accepted: 'bytes in standard base64 with padding',
  default: () => NO_BYTES,
  isDefault: (value) => value instanceof Uint8Array && value.length === 0,
  toJson: (value) =>
    value instanceof Uint8Array
      ? `"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}"`
      : undefined,
  fromJson(json) {
    if (typeof json !== 'string') return undefined;
    const decoded = Buffer.from(json, 'base64');
    // Node ignores characters that are not base64. Only the text that Node itself would write is
    // accepted.
    return decoded.toString('base64') === json ? new Uint8Array(decoded) : undefined;
  },
};

const uint32: ScalarCodec = {
  accepted: `a whole number from 0 to ${UINT32_MAX}`,
  default: () => 0,
  isDefault: (value) => value === 0,
  toJson: (value) => (isUint32(value) ? String(value) : undefined),
  fromJson: (json) => (isUint32(json) ? json : undefined),
};

const double: ScalarCodec = {
  accepted: 'a finite number',
  default: () => 0,
  isDefault: (value) => Object.is(value, 0),
  toJson: (value) => (typeof value === 'number' ? numberToJson(value) : undefined),
  fromJson: (json) => (Number.isFinite(json) ? json : undefined),
};

const int64Number: ScalarCodec = {
  accepted: 'a whole number within ±(2^53 - 1), in JSON as a string of decimal digits',
  default: () => 0,
  isDefault: (value) => value === 0,
  toJson: (value) => (Number.isSafeInteger(value) ? `"${value}"` : undefined),
  fromJson(json) {
    if (typeof json !== 'string' || !INT64_TEXT.test(json)) return undefined;
    return Number.isSafeInteger(Number(json)) ? Number(json) : undefined;
  },
};

const int64Bigint: ScalarCodec = {
  accepted: 'a whole number from -2^63 to 2^63 - 1, in JSON as a string of decimal digits',
  default: () => 0n,
  isDefault: (value) => value === 0n,
  toJson: (value) =>
    typeof value === 'bigint' && value >= INT64_MIN && value <= INT64_MAX ? `"${value}"` : undefined,
  fromJson(json) {
    if (typeof json !== 'string' || !INT64_TEXT.test(json)) return undefined;
    const value = BigInt(json);
    return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
  },
};

function enumCodec(names: readonly string[]): ScalarCodec {
  const isName = (value: unknown) => typeof value === 'string' && names.includes(value);
  return {
    accepted: `one of ${names.join(', ')}`,
    default: () => names[0],
    isDefault: (value) => value === names[0],
    toJson: (value) => (isName(value) ? `"${value}"` : undefined),
    fromJson: (json) => (isName(json) ? json : undefined),
  };
}

const CODECS = new Map<string, ScalarCodec>([
  ['string', string],
  ['bool', bool],
  ['bytes', bytes],
  ['uint32', uint32],
  ['double', double],
  ['int64-number', int64Number],
  ['int64-bigint', int64Bigint],
  ...Object.entries(ENUMS).map(([name, names]): [string, ScalarCodec] => [name, enumCodec(names)]),
]);

/**
 * The codec of a field that holds scalars or enums, or of the elements of a repeated field or map.
 */
export function scalarCodec(field: FieldSchema): ScalarCodec {
  const codec = CODECS.get(field.type);
  if (codec === undefined)
    throw new Error(
      `the schema has a field ${field.name} of type ${field.type}, which the codec does not know`,
    );
  return codec;
}
