/** Before the tests: packs the command, so that they run what these sources say. */

import { pack } from './packed-command.ts';

export default pack;
