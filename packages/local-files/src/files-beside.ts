import { realpath } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { CheckpointError, type LocalFiles } from '@holdfast/core/contract';
import { localPath } from './local-path.ts';

/**
 * The files of this machine for a run in the directory `run`: neither what holds it nor what lies in it can be saved, for each save would
 * hold all those before. `InvalidArgument` names both.
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
  const [runPlace, place] = [await realPlace(run), await realPlace(localPath(directory))];
  const what = isWithin(place, runPlace)
    ? 'holds the run'
    : isWithin(runPlace, place)
      ? 'lies in the run'
      : null;
  if (what === null) return;
  throw new CheckpointError('InvalidArgument', `${directory} ${what} that it would be saved to, ${run}`, {
    context: { path: directory, advice: ['keep the run in a directory beside the one that is saved'] },
  });
}

/** Without links, as far as the path leads to something by now. */
async function realPlace(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(await realPlace(above), relative(above, path));
  }
}

function isWithin(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
}
