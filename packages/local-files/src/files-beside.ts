import { sep } from 'node:path';
import { CheckpointError, type LocalFiles } from '@holdfast/core/contract';
import { nodeFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import { realDirectory } from './siblings.ts';

/**
 * `files`, guarded for a run in the directory `run`. Saving that directory, one above it or one in
 * it throws `InvalidArgument`, because each save would then contain all earlier ones. The error
 * names the run's directory and the one to be saved.
 */
export function filesBeside(files: LocalFiles, run: string): LocalFiles {
  return {
    ...files,
    scan: async (directory, options) => {
      await assertBeside(run, directory);
      return files.scan(directory, options);
    },
  };
}

async function assertBeside(run: string, directory: string): Promise<void> {
  const runPlace = await realDirectory(nodeFileSystem, run);
  const place = await realDirectory(nodeFileSystem, localPath(directory));
  const what = isWithin(place, runPlace)
    ? 'holds the run'
    : isWithin(runPlace, place)
      ? 'lies in the run'
      : null;
  if (what === null) return;
  throw new CheckpointError('InvalidArgument', `${directory} ${what} that it would be saved to, ${run}`, {
    context: { path: directory, advice: ['put the run into a directory beside the saved one'] },
  });
}

function isWithin(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
}
