import { statfsSync } from 'node:fs';

/**
 * Throws if there is too little room. A server without room hangs for minutes, and a client without
 * room may exhaust the machine's memory.
 */
export function assertRoom(what: string, directory: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= bytes) return;
  const found = `${what} needs ${bytes} bytes of room in ${directory}, which has ${bavail * bsize}`;
  throw new Error(`${found}; choose a smaller one with --shapes or --sizes, or another --dir`);
}
