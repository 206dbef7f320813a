import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromIni } from '@aws-sdk/credential-provider-ini';
import { HttpTransport, Proxies } from '@holdfast/cloud-http';
import { loadSharedConfigFiles } from '@smithy/core/config';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { profileSettings, readAwsFiles } from './aws-files.ts';
import { parseS3Config } from './config.ts';
import { Credentials } from './credentials.ts';

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-aws-'));
  for (const name of ['AWS_PROFILE', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'])
    vi.stubEnv(name, undefined);
  vi.stubEnv('AWS_CONFIG_FILE', join(directory, 'config'));
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(directory, 'credentials'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
});

function write(files: { config?: string; credentials?: string }): void {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
}

const KEYS = 'aws_access_key_id = AKID\naws_secret_access_key = c2VjcmV0/+=\n';

/** Texts that readers of such files treat differently. */
const ODD: readonly (readonly [string, string])[] = [
  ['nothing', ''],
  ['a plain profile', `[default]\n${KEYS}`],
  ['named profiles', `[profile x]\n${KEYS}[profile y]\nregion=eu-west-1\n[z]\nregion = us-west-2\n`],
  ['odd spacing', '  [ default ]\n region=a\n[default]   \n   region   =   eu-west-1   \n[profile\tx]\na=b'],
  ['no spacing', '[default]\nregion=a=b=c\n=x\nonly words\n'],
  ['comments', '; a\n# b\n[default] ; c\nregion = a # d\nx = b#c\ny = b ;c\n#z = d\n;z = e\n'],
  ['quoted names', '[profile "x"]\na=1\n[profile \'y\']\na=2\n[profile "z\']\na=3\n[profile "a b"]\na=4'],
  ['names with signs', '[profile a.b@c+d%e:f/g]\na=1\n[profile.h]\na=2\n[profile a,b]\na=3\n'],
  ['two blanks in a name', '[profile  x]\na=1\n[ profile x ]\na=2\n'],
  ['the same profile twice', '[profile x]\na=1\nb=2\n[profile y]\n[profile x]\nb=3\nc=4\n'],
  ['both forms of the default', '[default]\na=1\nb=2\n[profile default]\nb=3\n'],
  [
    'other kinds of sections',
    '[sso-session s]\na=1\n[services t]\ns3 =\n  endpoint_url = u\n[plugins]\na=2\n[foo bar]\na=3\n',
  ],
  ['nested settings', '[default]\ns3 =\n  region = inner\n  use_x = 1\nregion = outer\n  more = 2\n'],
  ['an empty value at the end', `[default]\n${KEYS}aws_session_token =\n`],
  ['an empty value, then more', `[default]\naws_session_token =\n ${KEYS}region = a\n`],
  ['settings before a section', 'region = a\n[default]\nb = c\n'],
  ['lines of Windows', '[default]\r\nregion = a\r\n\r\n[profile x]\r\nb = c\r\n'],
  ['lone carriage returns', '[default]\rregion = a\r'],
  ['a byte order mark', '\ufeff[default]\nregion = a\n'],
  ['brackets in values', '[default]\na = [b]\n[c] = d\n[]\ne = f\n[default\ng = h\n'],
  ['a forbidden name', '[default]\na = b\n[profile __proto__]\nc = d\n'],
  ['names of objects', '[profile constructor]\na = b\n[profile toString]\nconstructor = d\n__proto__ = e\n'],
];

describe("as the SDK's own reader", () => {
  it.each(ODD)('%s', async (_name, text) => {
    write({ config: text, credentials: text });
    const theirs = await loadSharedConfigFiles({ ignoreCache: true });
    const ours = await readAwsFiles();
    // Sections of other kinds are of no use to us.
    const profiles = Object.entries(theirs.configFile).filter(
      ([name]) => !/^(sso-session|services)\./.test(name),
    );
    expect(Object.fromEntries(ours.config)).toEqual(Object.fromEntries(profiles));
    expect(Object.fromEntries(ours.credentials)).toEqual({ ...theirs.credentialsFile });
  });

  it('files that are missing, and paths below the home directory', async () => {
    expect([...(await readAwsFiles()).config]).toEqual([]);
    write({ config: '[default]\nregion = a\n', credentials: '[default]\nregion = b\n' });
    vi.stubEnv('HOME', directory);
    vi.stubEnv('AWS_CONFIG_FILE', '~/config');
    const files = await readAwsFiles();
    expect(profileSettings(files, undefined, 'config')).toEqual({ region: 'a' });
    expect(profileSettings(files, undefined, 'credentials')).toEqual({ region: 'b' });
    expect(profileSettings(files, 'other', 'config')).toEqual({});
    vi.stubEnv('AWS_PROFILE', 'other');
    expect(profileSettings(files, undefined, 'config')).toEqual({});
  });
});

describe('keys in a profile', () => {
  function credentials(profile: string | undefined): Credentials {
    const uri = profile === undefined ? 's3://runs' : `s3://runs?profile=${profile}`;
    const transport = new HttpTransport({
      proxies: new Proxies({}),
      refusalOf: () => new Error('nothing is sent'),
    });
    return new Credentials(parseS3Config(uri), { transport, region: () => Promise.resolve('us-east-1') });
  }

  it.each(ODD)('are those that the SDK finds: %s', async (_name, text) => {
    const settings = `\n[x]\n${KEYS}aws_session_token = token # of the day\n`;
    write({ config: text, credentials: `${text}\n${settings}` });
    for (const profile of [undefined, 'x', 'y']) {
      const theirs = await fromIni({ ignoreCache: true, ...(profile !== undefined && { profile }) })().catch(
        () => undefined,
      );
      if (theirs === undefined) continue;
      const { accessKeyId, secretAccessKey, sessionToken } = theirs;
      const ours = await credentials(profile).current();
      expect(ours.accessKeyId).toBe(accessKeyId);
      expect(ours.secretAccessKey).toBe(secretAccessKey);
      expect(ours.sessionToken).toBe(sessionToken);
    }
  });

  it('are read again after a refusal, and count as new only if they differ', async () => {
    write({ credentials: `[default]\n${KEYS}` });
    const found = credentials(undefined);
    expect((await found.current()).accessKeyId).toBe('AKID');
    expect(found.secrets).toEqual(['c2VjcmV0/+=', '']);
    expect(await found.renew()).toBe(false);
    write({ credentials: `[default]\n${KEYS.replace('AKID', 'NEW')}` });
    expect(await found.renew()).toBe(true);
    expect((await found.current()).accessKeyId).toBe('NEW');
  });

  it('beside a role are only what the role is asked for with: the SDK decides', async () => {
    write({ config: `[profile x]\n${KEYS}role_arn = arn:aws:iam::1:role/r\nsource_profile = gone\n` });
    await expect(credentials('x').current()).rejects.toMatchObject({
      message: expect.stringContaining('the role of the profile "x"'),
    });
  });

  it('do not override keys of the process, which the SDK finds first', async () => {
    write({ credentials: `[default]\n${KEYS}` });
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'OF-PROCESS');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    expect((await credentials(undefined).current()).accessKeyId).toBe('OF-PROCESS');
  });
});
