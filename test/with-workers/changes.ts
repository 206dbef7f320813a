/**
 * Runs tests with transfer workers. The sources that they load get other numbers: two workers
 * unless a setting says otherwise, for all parts but the smallest. The product knows nothing of it.
 */

import type { Plugin } from 'vitest/config';

interface Change {
  /** Below `packages/core/src`. */
  readonly file: string;
  /** Occurs there once. */
  readonly find: string;
  readonly replace: string;
}

const CHANGES: readonly Change[] = [
  {
    file: 'contract/settings.ts',
    find: '  workers: {\n    default: -1,',
    replace: '  workers: {\n    default: 2,',
  },
  {
    file: 'transfer/workers.ts',
    find: 'const PART_BYTES_MIN = 256 * 1024;',
    replace: 'const PART_BYTES_MIN = 1024;',
  },
];

export function withWorkers(): Plugin {
  return {
    name: 'with-workers',
    enforce: 'pre',
    transform(source, id) {
      const change = CHANGES.find(({ file }) => id.endsWith(`/packages/core/src/${file}`));
      if (change === undefined) return undefined;
      const pieces = source.split(change.find);
      if (pieces.length === 2) return pieces.join(change.replace);
      throw new Error(`"${change.find}" is to be changed in one place of ${change.file}`);
    },
  };
}
