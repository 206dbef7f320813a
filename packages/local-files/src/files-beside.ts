import { sep } from 'node:path';
import { CheckpointError, type LocalFiles } from '@holdfast/core/contract';
import { nodeFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import { realDirectory } from './siblings.ts';

/**
 * `files`, guarded for a run in the directory `run`. Saving that directory, one above it or one in
 * it throws `InvalidArgument`, because each save would then contain all earlier ones. So does a
 * link that leads there. The error names the run's directory and the one to be saved.
 */
export function filesBeside(files: LocalFiles, run: string): LocalFiles {
  return {
    ...files,
    scan: async (directory, options) => {
      const runPlace = await realDirectory(nodeFileSystem, run);
      const assertBeside = (place: string, named: string) => {
        const what = overlap(runPlace, place);
        if (what === null) return;
        const message = `${named} ${what} that it would be saved to, ${run}`;
        const context = { path: named, advice: ['put the run into a directory beside the saved one'] };
        throw new CheckpointError('InvalidArgument', message, { context });
      };
      assertBeside(await realDirectory(nodeFileSystem, localPath(directory)), directory);
      const onFollowed = (path: string) => {
        assertBeside(path, path);
        options?.onFollowed?.(path);
      };
      return files.scan(directory, { ...options, onFollowed });
    },
  };
}

function overlap(run: string, place: string): string | null {
  if (isWithin(place, run)) return 'holds the run';
  return isWithin(run, place) ? 'lies in the run' : null;
}

function isWithin(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
}
