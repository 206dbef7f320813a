/** Values of options that only the commands for ElasticDL have. Pure. */

import type { RankedMetric } from '@holdfast/elasticdl';
import { BadValue } from '../values.ts';

/** `auc`, `auc:max`, `loss:min`: without a mode, the highest is best. The name may hold colons of its own. */
export function parseRankedMetric(text: string): RankedMetric {
  const match = /^(.+?)(?::(min|max))?$/.exec(text);
  if (match === null) throw new BadValue(`"${text}" names no metric; write it like auc, auc:max or loss:min`);
  return { metric: match[1] as string, mode: (match[2] ?? 'max') as 'min' | 'max' };
}
