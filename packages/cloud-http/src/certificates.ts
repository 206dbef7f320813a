import { readFile } from 'node:fs/promises';
import { CheckpointError } from '@holdfast/core/contract';

export interface Trust {
  /** Path of a PEM file with certificates to trust besides the usual ones: the setting `ca`. */
  readonly ca?: string | undefined;
  /** Path of a PEM file with all certificates to trust, and the variable that names it. */
  readonly bundle?: { readonly path: string; readonly variable: string } | undefined;
}

/**
 * All certificates to trust, in PEM; undefined: Node's own. `InvalidConfig`: a file cannot be read
 * or contains none.
 */
export async function trustedCertificates({ ca, bundle }: Trust): Promise<string[] | undefined> {
  const usual = bundle === undefined ? undefined : [await certificates(bundle.path, bundle.variable)];
  if (ca === undefined) return usual;
  // Loaded on demand: plain HTTP must not pay 20 ms for it.
  const { rootCertificates } = await import('node:tls');
  return [...(usual ?? rootCertificates), await certificates(ca, 'ca=')];
}

async function certificates(path: string, setting: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new CheckpointError('InvalidConfig', `the certificates in ${path} (${setting}) cannot be read`, {
      cause,
    });
  });
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new CheckpointError('InvalidConfig', `${path} (${setting}) holds no certificate in PEM form`);
}
