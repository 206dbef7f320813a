import { CLOUDS, S3 } from '../servers/clouds.ts';
import { describeBehindBadNetwork } from './bad-network.ts';

for (const cloud of CLOUDS) if (cloud !== S3) describeBehindBadNetwork(cloud);
