/**
 * The order of the folders of core and of the manager's rooms. A file imports only from its own
 * folder and from those before it, types included. A room is entered through its `index.ts`.
 */

import { isCode, isTest, type Repository, resolveFrom } from './repository.ts';
import { importsOf } from './syntax.ts';

const CORE = 'packages/core/src/';

const FOLDERS = ['contract', 'format', 'plan', 'workers', 'transfer', 'manager', 'election'];

/** The folders of `manager`. Its own files come last. */
const ROOMS = ['records', 'catalog', 'run', 'read', 'tensors', 'commit', 'save', 'keep', 'move', 'mend'];

const ORDER = FOLDERS.flatMap((folder) =>
  folder === 'manager' ? [...ROOMS.map((room) => `manager/${room}`), 'manager'] : [folder],
);

/** Files besides `index.ts`. A larger room is two rooms. */
const ROOM_FILES_MAX = 12;

/** The folder of a path below `packages/core/src`, or '' for the files that lie there. */
function folderOf(path: string): string {
  const below = path.slice(CORE.length);
  return ORDER.find((folder) => below.startsWith(`${folder}/`)) ?? /^([^/]+)\//.exec(below)?.[1] ?? '';
}

function isRoom(folder: string): boolean {
  return folder.startsWith('manager/');
}

function crossing(path: string, specifier: string): string | undefined {
  const target = resolveFrom(path, specifier);
  const [from, to] = [folderOf(path), folderOf(target)];
  if (!target.startsWith(CORE) || from === to) return undefined;
  if (isRoom(to) && !target.endsWith('/index.ts'))
    return `${path}: "${specifier}" enters a room; import ${CORE}${to}/index.ts`;
  const isAllowed =
    from === '' ||
    (from === 'store' ? to === 'contract' : ORDER.includes(to) && ORDER.indexOf(from) > ORDER.indexOf(to));
  if (isAllowed) return undefined;
  return `${path}: must not import "${specifier}"; store sees contract, and the others what is before them: ${ORDER.join(', ')}`;
}

export function importsAgainstTheOrder(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => path.startsWith(CORE) && isCode(path) && !isTest(path))
    .flatMap(([path, text]) => {
      const local = importsOf(text).filter((specifier) => specifier.startsWith('.'));
      return local.map((specifier) => crossing(path, specifier));
    })
    .filter((finding) => finding !== undefined);
}

export function crowdedRooms(repository: Repository): string[] {
  const counts = new Map<string, number>();
  for (const path of repository.keys()) {
    const room = path.startsWith(CORE) && !isTest(path) ? folderOf(path) : '';
    if (isRoom(room) && !path.endsWith('/index.ts')) counts.set(room, (counts.get(room) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > ROOM_FILES_MAX)
    .map(([room, count]) => `${CORE}${room}: ${count} files; a room has at most ${ROOM_FILES_MAX}`);
}
