import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Works in a new directory below `parent`, which is removed at the end, however that comes. */
export async function inNewDirectory<T>(parent: string, work: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(parent, 'holdfast-bench-'));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  process.on('exit', remove);
  try {
    return await work(directory);
  } finally {
    remove();
    process.off('exit', remove);
  }
}
