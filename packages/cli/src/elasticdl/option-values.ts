/** Values of options that only the ElasticDL commands have. Pure. */

import type { RankedMetric } from '@holdfast/elasticdl';
import { BadValue } from '../values.ts';

/**
 * Parses `auc`, `auc:max` or `loss:min`. Without a mode, the highest value is best. The name may
 * contain colons.
 */
export function parseRankedMetric(text: string): RankedMetric {
  const match = /^(.+?)(?::(min|max))?$/.exec(text);
  if (match === null) throw new BadValue(`"${text}" is not a metric; write it like auc, auc:max or loss:min`);
  return { metric: match[1] as string, mode: (match[2] ?? 'max') as 'min' | 'max' };
}

/**
 * Like `parseRankedMetric`, but requires the mode: the result is stored, and a wrong guess would
 * mislead.
 */
export function parseMetricWithMode(text: string): RankedMetric {
  if (/^.+:(min|max)$/.test(text)) return parseRankedMetric(text);
  throw new BadValue(`"${text}" does not say whether min or max is best; write it like auc:max or loss:min`);
}

/** The number of ids of 32 bits. */
const ROW_COUNT_MAX = 2 ** 32;

/** Rows of dense tables: a number, or `highest`, which is one more than the highest id. */
export function parseRowCount(text: string): number | 'highest' {
  if (text === 'highest') return text;
  const rowCount = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (rowCount <= ROW_COUNT_MAX) return rowCount;
  throw new BadValue(`"${text}" is neither a whole number from 0 to ${ROW_COUNT_MAX} nor "highest"`);
}

/** Parses `embedding=300000`. The name may contain `=`. */
export function parseTableRows(text: string): readonly [table: string, rowCount: number] {
  const at = text.lastIndexOf('=');
  const rowCount = /^\d{1,10}$/.test(text.slice(at + 1)) ? Number(text.slice(at + 1)) : Number.NaN;
  if (at > 0 && rowCount <= ROW_COUNT_MAX) return [text.slice(0, at), rowCount];
  throw new BadValue(
    `"${text}" is not of the form TABLE=ROWS, such as embedding=300000, ROWS from 0 to ${ROW_COUNT_MAX}`,
  );
}
