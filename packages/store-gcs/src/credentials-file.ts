/**
 * Reads the file of the application default credentials, and says how a token is asked for. It
 * understands the key of a service account and the login of a user, as Google's library does, with
 * which tests compare it. All else is left to that library, which also says what is wrong.
 */

import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { environmentOfTools } from './env.ts';

const AUDIENCE = 'https://oauth2.googleapis.com/token';
const JWT_LIFE_S = 3600;

export interface TokenForm {
  /** Encoded as a form. */
  readonly body: string;
  /** Secrets in the form. */
  readonly secrets: readonly string[];
}

/**
 * What to send to Google's token server for a token with this scope. Undefined: only the library
 * knows. The file is read each time, because it may have been replaced.
 */
export async function tokenForm(scope: string): Promise<TokenForm | undefined> {
  const path = pathOfFile(environmentOfTools());
  if (path === undefined) return undefined;
  const file = settingsIn(await readFile(path, 'utf8').catch(() => ''));
  if ((file['universe_domain'] ?? GOOGLE) !== GOOGLE) return undefined;
  if (file['type'] === 'service_account') return serviceAccountForm(file, scope);
  return file['type'] === 'authorized_user' ? userForm(file) : undefined;
}

/** The domain of Google's own cloud. */
const GOOGLE = 'googleapis.com';

function pathOfFile(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const { GOOGLE_APPLICATION_CREDENTIALS: named, google_application_credentials: alsoNamed } = env;
  if (named) return named;
  const { CLOUDSDK_CONFIG: config, HOME: home } = env;
  // On Windows the login of gcloud is elsewhere.
  if (alsoNamed || process.platform === 'win32' || !(config || home)) return undefined;
  return join(config || join(home ?? '', '.config', 'gcloud'), 'application_default_credentials.json');
}

/** Empty for anything but a JSON object. */
export function settingsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? { ...value } : {};
  } catch {
    return {};
  }
}

/** RFC 7523: a claim that the key of the account signs. */
function serviceAccountForm(
  { client_email: email, private_key: pem }: Readonly<Record<string, unknown>>,
  scope: string,
): TokenForm | undefined {
  const key = typeof pem === 'string' ? rsaKey(pem) : undefined;
  if (typeof email !== 'string' || email === '' || key === undefined) return undefined;
  const iat = Math.floor(Date.now() / 1000);
  const claim = { iss: email, scope, aud: AUDIENCE, exp: iat + JWT_LIFE_S, iat };
  const signed = [{ alg: 'RS256' }, claim].map((part) => base64url(JSON.stringify(part))).join('.');
  const assertion = `${signed}.${base64url(sign('RSA-SHA256', Buffer.from(signed), key))}`;
  const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  return formOf({ grant_type: grant, assertion }, [assertion]);
}

function userForm({
  client_id: id,
  client_secret: secret,
  refresh_token: token,
}: Readonly<Record<string, unknown>>): TokenForm | undefined {
  if (typeof id !== 'string' || typeof secret !== 'string' || typeof token !== 'string') return undefined;
  if (id === '' || secret === '' || token === '') return undefined;
  const form = { refresh_token: token, client_id: id, client_secret: secret, grant_type: 'refresh_token' };
  return formOf(form, [secret, token]);
}

function formOf(fields: Record<string, string>, secrets: readonly string[]): TokenForm {
  return { body: new URLSearchParams(fields).toString(), secrets };
}

function rsaKey(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem);
    return key.asymmetricKeyType === 'rsa' ? key : undefined;
  } catch {
    return undefined;
  }
}

function base64url(text: string | Buffer): string {
  return Buffer.from(text).toString('base64url');
}
