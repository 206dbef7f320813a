import { describeFrameworks } from './frameworks-suite.ts';

describeFrameworks('transformers and accelerate', 'hf', 8);
