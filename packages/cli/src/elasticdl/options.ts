/** Options that several commands for ElasticDL share. */

import { value } from '../option.ts';
import { parseChoice } from '../values.ts';

const NUMBERINGS = ['elasticdl', 'tensorflow'] as const;

export const numbering = value(
  '--numbering <whose>',
  'numbering of types, if a file does not say: elasticdl (until February 2020) or tensorflow',
  parseChoice(NUMBERINGS),
  NUMBERINGS,
);

const FORMS = ['S4', 'S7'] as const;

export const form = value(
  '--form <form>',
  'S7 (the default), which ElasticDL reads from February 2020 on, or S4, which it read before',
  parseChoice(FORMS),
  FORMS,
);
