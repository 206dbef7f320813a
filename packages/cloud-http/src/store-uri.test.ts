import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { firstOf, StoreUri } from './store-uri.ts';

const FORM = {
  scheme: 'zz',
  form: 'zz://place/prefix',
  settings: { color: 'red or blue', loud: 'true or false', endpoint: 'a URL', ca: 'an absolute path' },
} as const;

const fromEnv = (value: string) => ({ variable: 'ZZ_VARIABLE', value });
const uriOf = (text: string) => new StoreUri(text, FORM);

function refusalOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (isCheckpointError(error, 'InvalidConfig')) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('StoreUri', () => {
  it('takes a URI apart and keeps what it does not understand for the adapter', () => {
    const uri = uriOf('ZZ://place:9/a//b%20c/?color=blue&loud=true');
    expect([uri.authority, uri.path]).toEqual(['place:9', 'a//b%20c/']);
    expect(uri.prefix(uri.path)).toBe('a//b c');
    expect(uri.choice('color', ['red', 'blue'])).toBe('blue');
    expect(uri.flag('loud', false)).toBe(true);
  });

  it.each([
    'zz://place/x?X-Amz-Signature=canary',
    'zz://place/x%3FX-Amz-Credential=a%26X-Amz-Signature=canary',
    'zz://place/x%3FX-Goog-Signature%3Dcanary',
    'zz://place/x%253FSignature%253Dcanary',
    'zz://place/x;x-amz-security-token=canary',
  ])('a signed URL is refused and not repeated: %#', (uri) => {
    const message = refusalOf(() => uriOf(uri));
    expect(message).toContain('contains the signature of a signed URL');
    expect(message).not.toContain('canary');
  });

  it('names that only resemble a signature are prefixes', () => {
    for (const path of ['design=1', 'sig', 'sigs=2', 'x/signature', 'bigsig=7'])
      expect(uriOf(`zz://place/${path}`).path).toBe(path);
  });

  it('left out, a setting has its default, or what the environment says', () => {
    const uri = uriOf('zz://place');
    expect(uri.choice('color', ['red', 'blue'])).toBe('red');
    expect(uri.optionalChoice('color', ['red'])).toBeUndefined();
    expect(uri.flag('loud', true)).toBe(true);
    expect(uri.matching('color', /^r/, fromEnv('rosy'))).toBe('rosy');
    expect(uri.matching('color', /^r/, fromEnv(''))).toBeUndefined();
    expect(uri.baseUrl('endpoint', fromEnv('http://[::1]:9/base/'))).toBe('http://[::1]:9/base');
    expect(uri.absolutePath('ca')).toBeUndefined();
  });

  it.each([
    ['yy://place', 'is not of the form zz://place/prefix'],
    ['zz:/place', 'is not of the form'],
    ['zz://place/a#b', 'has a fragment'],
    ['zz://user:hunter2@place/a', 'contains credentials'],
    ['zz://place?shape=round', 'unknown setting'],
    ['zz://place?color=red&color=red', 'the query key "color" twice'],
    ['zz://place?color=', 'color is red or blue'],
    ['zz://place?color=%zz', 'a "%" that is not followed by two hexadecimal digits'],
  ])('%s is refused with what was wrong and what is accepted', (text, words) => {
    const message = refusalOf(() => uriOf(text));
    expect(message).toContain(words);
    expect(message).toContain('accepted: zz://place/prefix: color, loud, endpoint, ca');
    expect(message).not.toContain('hunter2');
  });

  it('a value that is not accepted is named with what is', () => {
    expect(refusalOf(() => uriOf('zz://p?color=green').choice('color', ['red', 'blue']))).toContain(
      'has color= with a value that is not accepted; color is red or blue',
    );
    expect(refusalOf(() => uriOf('zz://p?ca=here').absolutePath('ca'))).toContain('has ca= with');
  });

  it('a URL with a secret in it is refused without telling it', () => {
    for (const url of [
      'http://u:hunter2@host',
      'http://:hunter2@host',
      'http://host?token=hunter2',
      'http://host#hunter2',
      'ftp://u:hunter2@host',
      'u:hunter2@host',
      'http://u:1/hunter2@host',
    ]) {
      const message = refusalOf(() => uriOf('zz://p').baseUrl('endpoint', fromEnv(url)));
      expect(message).toBe('ZZ_VARIABLE has a value that is not accepted; endpoint is a URL');
      const given = refusalOf(() =>
        uriOf(`zz://p?endpoint=${encodeURIComponent(url)}`).baseUrl('endpoint', fromEnv('http://other')),
      );
      expect(given).toContain('has endpoint= with a value that is not accepted; endpoint is a URL');
      expect(given).not.toContain('hunter2');
    }
  });

  it('a prefix that leaves no room for keys, or holds a control character, is refused', () => {
    const uri = uriOf('zz://p');
    expect(refusalOf(() => uri.prefix('x'.repeat(513)))).toContain('more than 512 bytes');
    expect(refusalOf(() => uri.prefix('a%01'))).toContain('a control character');
  });

  it.each([
    'yy://u:hunter2@place',
    'zz://u:hunter2@place',
    'zz://u:hun/hunter2@place',
    'hunter2',
    'zz://place?hunter2',
    'zz://place?hunter2=red',
    'zz://place?color=hunter2',
    'zz://place#hunter2',
    'zz://place?color=%zzhunter2',
  ])('%s: nothing of it is repeated', (text) => {
    const refused = () => {
      const uri = uriOf(text);
      if (uri.path !== '') throw new CheckpointError('InvalidConfig', 'taken for a prefix');
      uri.choice('color', ['red', 'blue']);
    };
    expect(refusalOf(refused)).not.toContain('hunter');
  });

  it('the first variable that is set counts', () => {
    expect(firstOf({ A: '', B: 'b', C: 'c' }, 'A', 'B', 'C')).toEqual({ variable: 'B', value: 'b' });
    expect(firstOf({ A: '' }, 'A', 'B')).toBeUndefined();
  });
});
