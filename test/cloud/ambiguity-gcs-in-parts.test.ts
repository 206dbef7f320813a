import { describeAmbiguity } from './ambiguity.ts';
import { AMBIGUOUS_GCS_IN_PARTS } from './ambiguity-clouds.ts';

describeAmbiguity(AMBIGUOUS_GCS_IN_PARTS);
