import { describeFrameworks } from './frameworks-suite.ts';

describeFrameworks('torch.distributed.checkpoint', 'torch', 41);
