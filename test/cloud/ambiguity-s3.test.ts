import { describeAmbiguity } from './ambiguity.ts';
import { AMBIGUOUS_S3 } from './ambiguity-clouds.ts';

describeAmbiguity(AMBIGUOUS_S3);
