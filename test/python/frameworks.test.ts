import { describeFrameworks } from './frameworks-suite.ts';

describeFrameworks('fsspec, Lightning, Ray Train, Composer, DeepSpeed and Megatron-core', 'frameworks', 58);
