/** A file with the prices of stored bytes, which the user gives. */

import { CheckpointError } from '@holdfast/core/contract';

const GIB = 1024 ** 3;

export interface Prices {
  /** For messages and tables: `USD`. */
  readonly currency: string;
  /** Longest prefix first. */
  readonly byPrefix: readonly { readonly prefix: string; readonly perGiBMonth: number }[];
}

const FORM = '{"currency": "USD", "perGiBMonth": {"s3://bucket/": 0.023}}';

/** `path`: for messages. `InvalidConfig`: the text is not of the form above. */
export function parsePrices(text: string, path: string): Prices {
  const { currency, perGiBMonth, ...others } = objectOf(parsed(text, path), path);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw invalid(path, `has the unknown member ${JSON.stringify(unknown)}`);
  if (typeof currency !== 'string' || !/^[^\s\p{Cc}]{1,8}$/u.test(currency))
    throw invalid(path, 'needs "currency", 1 to 8 characters without spaces');
  const entries = Object.entries(objectOf(perGiBMonth, path));
  if (entries.length === 0) throw invalid(path, 'has no price');
  const byPrefix = entries.map(([prefix, price]) => {
    if (typeof price !== 'number' || !Number.isFinite(price) || price < 0)
      throw invalid(path, `has a price for ${JSON.stringify(prefix)} that is not a number from 0 on`);
    return { prefix, perGiBMonth: price };
  });
  return { currency, byPrefix: byPrefix.sort((a, b) => b.prefix.length - a.prefix.length) };
}

/**
 * Price of a month of the bytes, by the longest prefix of the URI that has a price. `null`: no
 * prefix matches, or the size is unknown.
 */
export function monthlyCost(
  { byPrefix }: Prices,
  { uri, storedBytes }: { readonly uri: string; readonly storedBytes: number | null },
): number | null {
  const found = byPrefix.find(({ prefix }) => uri.startsWith(prefix));
  return found === undefined || storedBytes === null ? null : (storedBytes / GIB) * found.perGiBMonth;
}

function parsed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(path, 'is not JSON');
  }
}

function objectOf(value: unknown, path: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw invalid(path, 'has another form');
}

function invalid(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidConfig', `the price file ${path} ${what}; accepted: ${FORM}`, {
    context: { path },
  });
}
