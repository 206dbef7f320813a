import { CheckpointError } from '@holdfast/core/contract';

/** The limit of most file systems. */
const KEY_BYTES_MAX = 255;

/**
 * A key is a file name in the checkpoint's directory and cannot lead out of it. Otherwise
 * `InvalidArgument`.
 */
export function checkKey(key: string): void {
  const isName = key !== '' && key !== '.' && key !== '..' && !/[/\\\0]/.test(key);
  if (isName && Buffer.byteLength(key) <= KEY_BYTES_MAX) return;
  throw new CheckpointError(
    'InvalidArgument',
    `"${key}" cannot be a key: it must be a file name of at most ${KEY_BYTES_MAX} bytes, without / and \\`,
    { context: { name: key } },
  );
}
