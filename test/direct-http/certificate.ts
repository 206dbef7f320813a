import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/**
 * A self-signed certificate for `names` (`DNS:localhost`, `IP:127.0.0.1`), valid for one day from
 * now.
 */
export function makeCertificate(...names: string[]): Certificate {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-certificate-'));
  const keyPath = join(directory, 'key.pem');
  const certPath = join(directory, 'cert.pem');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', keyPath];
  const subject = ['-subj', '/CN=scripted', '-addext', `subjectAltName=${names.join(',')}`];
  try {
    execFileSync('openssl', ['req', '-x509', ...key, '-out', certPath, '-days', '1', ...subject], {
      stdio: 'pipe',
    });
    return { key: readFileSync(keyPath, 'utf8'), cert: readFileSync(certPath, 'utf8') };
  } finally {
    rmSync(directory, { recursive: true });
  }
}
