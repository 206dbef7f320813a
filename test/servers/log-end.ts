import { open } from 'node:fs/promises';

const END_BYTES = 4096;

/** The last lines of a log, for a message. Never fails. */
export async function readLogEnd(path: string): Promise<string> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const { buffer, bytesRead } = await file.read({
        buffer: Buffer.alloc(END_BYTES),
        position: Math.max(0, size - END_BYTES),
      });
      return buffer.toString('utf8', 0, bytesRead).trim() || '(the log is empty)';
    } finally {
      await file.close();
    }
  } catch (error) {
    return `(${path} cannot be read: ${error instanceof Error ? error.message : String(error)})`;
  }
}
