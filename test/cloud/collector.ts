/**
 * A collection that kills itself before a call to the store. Usage: `collector.ts URI CALL`. If it
 * reaches its end, it prints what it removed.
 */

import { createCheckpointManager } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { FaultyStore } from '@holdfast/testkit';
import { RULES } from './killed-collectors.ts';

const [uri = '', call = ''] = process.argv.slice(2);
const store = new FaultyStore(await openStore(uri, process.env), ({ number }) => {
  if (number === Number(call)) process.kill(process.pid, 'SIGKILL');
  return undefined;
});
await using manager = createCheckpointManager({ store });
const { removed, swept } = await manager.admin.collect(RULES);
process.stdout.write(`removed ${removed.length}, deleted ${swept.objectCount}\n`);
