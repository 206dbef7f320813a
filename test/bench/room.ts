import { statfsSync } from 'node:fs';

/** A server that runs out of room hangs for minutes, and a client that does may take the machine's memory with it. */
export function assertRoom(what: string, directory: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= bytes) return;
  const found = `${what} needs ${bytes} bytes of room in ${directory}, which has ${bavail * bsize}`;
  throw new Error(`${found}; choose a smaller one with --shapes or --sizes, or another --dir`);
}
