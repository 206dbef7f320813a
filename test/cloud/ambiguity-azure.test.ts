import { describeAmbiguity } from './ambiguity.ts';
import { AMBIGUOUS_AZURE } from './ambiguity-clouds.ts';

describeAmbiguity(AMBIGUOUS_AZURE);
