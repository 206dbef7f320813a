import { describe, expect, it } from 'vitest';
import { textOf, unescapedXml } from './values.ts';

describe('text of XML', () => {
  it.each([
    ['a &amp; b &lt;&gt;&quot;&apos;', 'a & b <>"\''],
    ['&#13;&#10;&#39;&#128273;', "\r\n'\u{1f511}"],
    ['&#xD;&#xa;&#x1F511;', '\r\n\u{1f511}'],
    ['&amp;lt; &#38;lt; &amp;#39;', '&lt; &lt; &#39;'],
    [
      '&unknown; &; & &#; &#x; &#xZZ; &#1114112; &#x110000;',
      '&unknown; &; & &#; &#x; &#xZZ; &#1114112; &#x110000;',
    ],
  ])('%j is %j', (xml, text) => {
    expect(unescapedXml(xml)).toBe(text);
    expect(textOf(`<a>${xml}</a>`, 'a')).toBe(text);
  });
});
