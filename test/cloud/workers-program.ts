/**
 * Saves a file with workers, restores it, and ends without closing anything. For
 * `workers.test.ts`.
 */

import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openWorkers } from '@holdfast/core/internal/workers/index';
import { openCheckpointManager } from '@holdfast/stores';

const [directory = '', uri = ''] = process.argv.slice(2);
const services = new Set<string>();
const { workers } = await openWorkers(2);
const { connect } = workers;
Object.assign(workers, {
  connect: (index: number, service: URL, options: unknown) => {
    services.add(basename(service.pathname, '.ts'));
    return connect(index, service, options);
  },
});
const manager = await openCheckpointManager(uri, { settings: { workers: 2 } });
await manager.save({ version: 1, files: { a: join(directory, 'file') } });
await manager.restore({ to: join(directory, 'back') });
const isSame = readFileSync(join(directory, 'file')).equals(readFileSync(join(directory, 'back', 'a')));
console.log(JSON.stringify({ services: [...services], isSame }));
