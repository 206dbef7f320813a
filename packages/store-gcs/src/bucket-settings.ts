import { HttpRefusal, objectError } from '@holdfast/cloud-http';
import type { UploadHome } from './upload-home.ts';

/**
 * Throws `Unsupported` if the bucket has a retention policy or default holds. They forbid deleting,
 * but parts that are objects have to be deleted. A bucket whose settings may not be read is
 * accepted.
 */
export async function assertNothingIsKept(
  { objects, config }: UploadHome,
  signal: AbortSignal | undefined,
): Promise<void> {
  const settings = await objects
    .bucket('retentionPolicy,defaultEventBasedHold', { signal })
    .catch(unlessDenied);
  const keeps =
    settings.retentionPolicy !== undefined
      ? 'a retention policy'
      : settings.defaultEventBasedHold === true && 'a hold on every object';
  if (keeps === false) return;
  const what = `has ${keeps}, which would keep the parts of uploads=compose; use uploads=multipart`;
  throw objectError('Unsupported', { store: config.uri }, what);
}

function unlessDenied(error: unknown): Record<string, unknown> {
  if (error instanceof HttpRefusal && error.status === 403) return {};
  throw error;
}
