import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { StoreUri } from './store-uri.ts';

const FORM = {
  scheme: 'zz',
  form: 'zz://place/prefix',
  settings: { color: 'red or blue', loud: 'true or false', endpoint: 'a URL', ca: 'an absolute path' },
} as const;

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

  it('left out, a setting has its default, or what the environment says', () => {
    const uri = uriOf('zz://place');
    expect(uri.choice('color', ['red', 'blue'])).toBe('red');
    expect(uri.optionalChoice('color', ['red'])).toBeUndefined();
    expect(uri.flag('loud', true)).toBe(true);
    expect(uri.matching('color', /^r/, 'rosy')).toBe('rosy');
    expect(uri.matching('color', /^r/, '')).toBeUndefined();
    expect(uri.baseUrl('endpoint', 'http://[::1]:9/base/')).toBe('http://[::1]:9/base');
    expect(uri.absolutePath('ca')).toBeUndefined();
  });

  it.each([
    ['yy://place', 'is not of the form zz://place/prefix'],
    ['zz:/place', 'is not of the form'],
    ['zz://place/a#b', 'has a fragment'],
    ['zz://user:hunter2@place/a', 'has credentials in it'],
    ['zz://place?shape=round', 'unknown query key "shape"'],
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
      'has color=green; color is red or blue',
    );
    expect(refusalOf(() => uriOf('zz://p?ca=here').absolutePath('ca'))).toContain('has ca=here');
  });

  it('a URL with a secret in it is refused without telling it', () => {
    for (const url of ['http://u:hunter2@host', 'http://host?sig=hunter2', 'ftp://u:hunter2@host']) {
      const message = refusalOf(() => uriOf('zz://p').baseUrl('endpoint', url));
      expect(message).toContain('has endpoint=');
      expect(message).not.toContain('hunter2');
    }
  });

  it('a prefix that leaves no room for keys, or holds a control character, is refused', () => {
    const uri = uriOf('zz://p');
    expect(refusalOf(() => uri.prefix('x'.repeat(513)))).toContain('more than 512 bytes');
    expect(refusalOf(() => uri.prefix('a%01'))).toContain('a control character');
  });
});
