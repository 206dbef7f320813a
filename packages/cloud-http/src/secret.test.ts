import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { conceal, Secret } from './secret.ts';

const VALUE = 'wJalrXUtnFEMI/K7MDENG+bPx==';

it('a secret is shown by nothing but its own call', () => {
  const secret = new Secret(VALUE);
  const holder = { inner: [secret] };
  const shown = [
    `${secret}`,
    JSON.stringify(holder),
    inspect(holder, { depth: null, showHidden: true }),
    inspect(holder, { depth: null, showHidden: true, customInspect: false }),
    Object.values(secret).join(),
  ];
  for (const each of shown) expect(each).not.toContain(VALUE.slice(0, 8));
  expect(secret.reveal()).toBe(VALUE);
});

describe('conceal', () => {
  const bytes = Buffer.from(VALUE);

  it.each([
    ['as it is', VALUE],
    ['percent-encoded', encodeURIComponent(VALUE)],
    ['in base64', bytes.toString('base64')],
    ['in base64 for URLs', bytes.toString('base64url')],
    ['its beginning', VALUE.slice(0, 11)],
    ['its middle', VALUE.slice(7, 15)],
    ['its end', VALUE.slice(-8)],
  ])('%s', (_name, said) => {
    expect(conceal(`the key ${said} is wrong`, [VALUE])).toBe('the key [secret] is wrong');
  });

  it.each([
    ['in hex', bytes.toString('hex')],
    ['in hex, upper case', bytes.toString('hex').toUpperCase()],
    ['in hex with spaces', bytes.toString('hex').replace(/..(?=.)/g, '$& ')],
    ['in hex with colons and 0x', bytes.toString('hex').replace(/..(?=.)/g, '0x$&:')],
    ['its own bytes in hex', Buffer.from(VALUE, 'base64').toString('hex')],
    ['a piece in hex', bytes.subarray(3, 12).toString('hex')],
  ])('%s', (_name, said) => {
    const shown = conceal(`the key g${said} is wrong`, [VALUE]);
    expect(shown.replace('0x', '')).toMatch(/^the key g\[secret\]\S{0,2} is wrong$/);
  });

  it('hex digits after another one', () => {
    const shown = conceal(`request a${bytes.toString('hex')}`, [VALUE]);
    expect(shown).toMatch(/^request a\[secret\]$/);
  });

  const hexOf = (letter: string) => letter.charCodeAt(0).toString(16);
  const inUrl = (letter: string) => `%${hexOf(letter)}`;
  const inXml = (letter: string) => `&#${letter.charCodeAt(0)};`;
  const inJson = (letter: string) => `\\u00${hexOf(letter)}`;
  const escaped = (text: string, one: (letter: string) => string, every = 1) =>
    [...text].map((letter, at) => (at % every === 0 ? one(letter) : letter)).join('');

  it.each([
    ['each character as in a URL', escaped(VALUE, inUrl)],
    ['each fifth character as in a URL', escaped(VALUE, inUrl, 5)],
    ['characters of XML by their numbers', escaped(VALUE, inXml)],
    [
      'characters of XML by their numbers in hex',
      escaped(VALUE, (letter) => `&#x0${hexOf(letter).toUpperCase()};`),
    ],
    ['characters of JSON', escaped(VALUE, inJson, 3)],
    ['a slash of JSON', VALUE.replaceAll('/', '\\/')],
    ['base64 with characters of XML', escaped(bytes.toString('base64'), inXml, 4)],
    ['one escape over another', escaped(escaped(VALUE, inUrl), inXml, 2)],
    ['three escapes over one another', escaped(escaped(escaped(VALUE, inJson, 2), inUrl), inXml, 7)],
  ])('%s', (_name, said) => {
    expect(conceal(`the key ${said} is wrong &amp; 100 %`, [VALUE])).toBe(
      'the key [secret] is wrong &amp; 100 %',
    );
  });

  it('characters beyond ASCII, escaped in any spelling', () => {
    const said = encodeURIComponent('pässwörd-für-alle').toLowerCase();
    expect(conceal(`${said} is wrong`, ['pässwörd-für-alle'])).toBe('[secret] is wrong');
  });

  it('broken escapes, and code points that do not exist, stay', () => {
    const text = 'a %zz &#xffffff; &#; &none; \\q %e4 100%';
    expect(conceal(text, [VALUE])).toBe(text);
  });

  it.each([0, 1, 2, 3])('inside a longer text in base64, after %i bytes', (before) => {
    const text = `${'x'.repeat(before)}${VALUE}", "more": 1`;
    for (const base64 of ['base64', 'base64url'] as const) {
      const shown = conceal(`said ${Buffer.from(text).toString(base64)}`, [VALUE]);
      const readable = Buffer.from(shown.replace('said ', '').replace('[secret]', ''), base64).toString();
      for (let at = 0; at + 4 <= VALUE.length; at++) expect(readable).not.toContain(VALUE.slice(at, at + 4));
      expect(shown.split('[secret]')).toHaveLength(2);
    }
  });

  it('leaves all other words as they are', () => {
    const text = 'The AWS access key Id you provided does not exist in our records.';
    expect(conceal(text, [VALUE, 'another-secret'])).toBe(text);
    expect(conceal(text, [])).toBe(text);
  });

  it('hides a short one where it stands whole', () => {
    expect(conceal('password hunter was refused', ['hunter'])).toBe('password [secret] was refused');
  });

  it('two in a row, and one again and again', () => {
    expect(conceal(`${VALUE} ${VALUE}, hunter`, [VALUE, 'hunter'])).toBe('[secret] [secret], [secret]');
  });

  it('is quick with long answers and long secrets', () => {
    const token = Array.from({ length: 4000 }, (_, index) => ((index * 7919) % 36).toString(36)).join('');
    const said = conceal(`${'x'.repeat(60_000)}${token}`, [token]);
    expect(said).toBe(`${'x'.repeat(60_000)}[secret]`);
  });
});
