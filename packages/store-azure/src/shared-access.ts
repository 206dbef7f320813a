import { createHmac, type KeyObject } from 'node:crypto';

/** The oldest version whose form is still in use. Later features are not needed. */
const SAS_VERSION = '2021-12-02';
/** A copy of many blocks takes time. */
const VALID_MS = 24 * 3_600_000;
/** Allows for clock differences. */
const EARLIER_MS = 15 * 60_000;

/**
 * Makes a SAS that allows reading one blob for a day, as a query.
 * https://learn.microsoft.com/rest/api/storageservices/create-service-sas
 */
export function readSas(
  { account, key }: { readonly account: string; readonly key: KeyObject },
  { container, blob, nowMs }: { readonly container: string; readonly blob: string; readonly nowMs: number },
): string {
  const start = isoSeconds(nowMs - EARLIER_MS);
  const end = isoSeconds(nowMs + VALID_MS);
  // Snapshot, encryption scope, and five headers of the answer.
  const unused = Array<string>(7).fill('');
  const text = [
    'r',
    start,
    end,
    `/blob/${account}/${container}/${blob}`,
    '', // Stored policy.
    '', // IP addresses.
    '', // Protocols.
    SAS_VERSION,
    'b',
    ...unused,
  ].join('\n');
  const signature = createHmac('sha256', key).update(text).digest('base64');
  return new URLSearchParams({
    sv: SAS_VERSION,
    sr: 'b',
    sp: 'r',
    st: start,
    se: end,
    sig: signature,
  }).toString();
}

function isoSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
