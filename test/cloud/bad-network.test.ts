/** A bad network before S3. This file also runs with workers, which send alike to any cloud. */

import { S3 } from '../servers/clouds.ts';
import { describeBehindBadNetwork } from './bad-network.ts';

describeBehindBadNetwork(S3);
