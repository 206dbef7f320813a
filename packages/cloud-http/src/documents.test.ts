import { describe, expect, it } from 'vitest';
import { isXmlOf, jsonValue } from './documents.ts';

const DECLARATION = '\ufeff<?xml version="1.0" encoding="utf-8"?>\n';
const BROKEN = expect.objectContaining({ code: 'BAD_BODY' });

function outcomeOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

describe('isXmlOf', () => {
  const isList = (xml: string, isOfStore?: boolean) => isXmlOf(xml, /^(\w+:)?List$/, isOfStore);

  it.each([
    '<List><Item>a</Item></List>',
    '<List ServiceEndpoint="https://acct/" >\n<List>a</List></List >\n',
    `${DECLARATION}<s3:List></s3:List>`,
    `${DECLARATION}<List />`,
    '<List/>',
    ' \n'.repeat(10_000).concat('<List></List>'),
  ])('%.60j is one', (xml) => {
    expect(isList(xml)).toBe(true);
  });

  it.each(['', '<html></html>', '<Lists></Lists>', 'welcome', '{"List": []}', `${DECLARATION}<html>`])(
    '%j is of another kind',
    (xml) => {
      expect(isList(xml)).toBe(false);
    },
  );

  it('cut anywhere is broken, and never whole or, once it has begun, of another kind', () => {
    const whole = `${DECLARATION}<List x="y"><Item>a</Item><Item>b</Item></List>`;
    for (let length = 8; length < whole.length; length++) {
      expect([length, outcomeOf(() => isList(whole.slice(0, length)))]).toEqual([length, 'BAD_BODY']);
    }
  });

  it.each(['', 'welcome', '<html></html>', '<Lisu></Lisu>'])(
    '%j was cut off or changed on its way where the store itself has answered',
    (xml) => {
      expect(() => isList(xml, true)).toThrow(BROKEN);
    },
  );
});

describe('the elements of a document', () => {
  const isList = (content: string) => outcomeOf(() => isXmlOf(`<List>${content}</List>`, /^List$/));

  it.each([
    '<a></a>',
    '<a/><b c="d" />',
    '<a><b>1</b><b/></a>',
    '<!-- of a server --><s3:a>1 &lt; 2</s3:a>',
    'text',
  ])('%j are nested as they should be', (content) => {
    expect(isList(content)).toBe(true);
  });

  it.each(['<a>', '</a>', '<a></b>', '<a><b></a></b>', '<a></a></a>', '</List><List></a>'])(
    '%j was changed on its way: an element would be missed',
    (content) => {
      expect(isList(content)).toBe('BAD_BODY');
    },
  );

  it('are refused in great depth, and start tags without an end take no time', () => {
    expect(isList('<a>'.repeat(100_000) + '</a>'.repeat(100_000))).toBe('BAD_BODY');
    expect(isList('<a '.repeat(1_000_000))).toBe(true);
  });
});

describe('jsonValue', () => {
  it('reads JSON; any other body is of another kind', () => {
    expect(jsonValue('{"a":[1]}\n')).toEqual({ a: [1] });
    expect(jsonValue('<html></html>')).toBeUndefined();
    expect(jsonValue('')).toBeUndefined();
  });

  it('an object cut anywhere is broken, nothing at all where the store itself has answered', () => {
    const whole = '{"items":[{"name":"a"}],"nextPageToken":"t"}';
    for (let length = 1; length < whole.length; length++)
      expect([length, outcomeOf(() => jsonValue(whole.slice(0, length)))]).toEqual([length, 'BAD_BODY']);
    for (const text of [' ', 'welcome']) expect(() => jsonValue(text, true)).toThrow(BROKEN);
  });
});
