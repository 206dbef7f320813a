/**
 * Starts the workers before the tests of a file. A clock that advances by itself would not see that
 * a save waits for them.
 */

import { openWorkers } from '@holdfast/core/internal/workers/index';

await openWorkers(2);
