import { describeAmbiguity } from './ambiguity.ts';
import { AMBIGUOUS_GCS } from './ambiguity-clouds.ts';

describeAmbiguity(AMBIGUOUS_GCS);
