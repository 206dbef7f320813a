/** Certificates for a server on the loopback interface, made for each test. */

import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Certificates {
  /** Certificate of the authority. Clients have to trust it. */
  readonly caPath: string;
  /** Certificate for 127.0.0.1, localhost and the requested names, signed by the authority. */
  readonly certificatePath: string;
  readonly keyPath: string;
}

// A separate authority, because some clients refuse a server whose certificate is the authority
// itself.
const configOf = (hostnames: readonly string[]) => `
[req]
distinguished_name = name
prompt = no
[name]
CN = Holdfast tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = ${['IP:127.0.0.1', 'DNS:localhost', ...hostnames.map((name) => `DNS:${name}`)].join(', ')}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
`;

/**
 * Writes the certificates into `directory`, under the names that MinIO looks for. They are valid
 * for two days. Needs `openssl`.
 */
export async function makeCertificates(
  directory: string,
  hostnames: readonly string[] = [],
): Promise<Certificates> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'openssl.cnf'), configOf(hostnames));
  const openssl = (line: string) => promisify(execFile)('openssl', line.split(' '), { cwd: directory });
  await openssl('ecparam -name prime256v1 -genkey -noout -out ca.key');
  await openssl('req -x509 -new -key ca.key -days 2 -out ca.crt -config openssl.cnf -extensions authority');
  await openssl('ecparam -name prime256v1 -genkey -noout -out server.ec');
  await openssl('pkcs8 -topk8 -nocrypt -in server.ec -out private.key');
  await openssl('req -new -key private.key -out server.csr -config openssl.cnf');
  await openssl(
    'x509 -req -in server.csr -CA ca.crt -CAkey ca.key -set_serial 2 -days 2 -out public.crt -extfile openssl.cnf -extensions server',
  );
  const path = (name: string) => join(directory, name);
  return { caPath: path('ca.crt'), certificatePath: path('public.crt'), keyPath: path('private.key') };
}
