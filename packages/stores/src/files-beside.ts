import { realpath } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CheckpointError, type LocalFiles } from '@holdfast/core/contract';
import { localFiles } from '@holdfast/local-files';

/**
 * The files of this machine for a run under this URI. Where the run is a directory, neither what holds it nor what lies in it can be saved:
 * each save would hold all those before. `InvalidArgument` names both.
 */
export function filesBeside(runUri: string): LocalFiles {
  if (!runUri.startsWith('file:')) return localFiles;
  const run = fileURLToPath(runUri);
  return {
    ...localFiles,
    scan: async (directory, options) => {
      await assertBeside(run, directory);
      return localFiles.scan(directory, options);
    },
  };
}

async function assertBeside(run: string, directory: string): Promise<void> {
  const [runPlace, place] = [await realPlace(run), await realPlace(resolve(directory))];
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
