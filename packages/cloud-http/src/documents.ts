/**
 * Answers that are documents. One that is cut off must not pass for a whole one, whatever its
 * framing says.
 */

import { DirectHttpError } from '@holdfast/direct-http';

/**
 * Is it a document of XML with such a root element? False: it is of another kind. Throws `BAD_BODY`
 * for one that has no end. `isOfStore`: its head says that the store itself answered, so that
 * nothing at all is a beginning, too.
 */
export function isXmlOf(xml: string, roots: RegExp, isOfStore = false): boolean {
  const text = xml.trimStart();
  if (text === '' && isOfStore) throw brokenAnswer('it has no bytes');
  const [declaration = ''] = /^<\?xml[^>]*>\s*/.exec(text) ?? [];
  const content = text.slice(declaration.length);
  const [tag, name = ''] = /^<([\w:]+)(?=[\s/>])/.exec(content) ?? [];
  if (tag === undefined) {
    if (text.startsWith('<?xml') && !content.includes('>')) throw brokenAnswer('it ends at its beginning');
    return false;
  }
  if (!roots.test(name)) return false;
  const end = `</${name}`;
  const endAt = content.lastIndexOf(end);
  const hasEnd = endAt !== -1 && /^\s*>/.test(content.slice(endAt + end.length));
  if (!hasEnd && !/^<[^<>]*\/>/.test(content)) throw brokenAnswer(`it has no </${name}>`);
  return true;
}

/**
 * A value of JSON; undefined for a document of another kind. Throws `BAD_BODY` for an object that
 * is cut off. `isOfStore`: as above.
 */
export function jsonValue(json: string, isOfStore = false): unknown {
  const text = json.trim();
  if (text === '' && isOfStore) throw brokenAnswer('it has no bytes');
  try {
    return JSON.parse(text);
  } catch {
    if (text.startsWith('{')) throw brokenAnswer('its JSON has no end, or is damaged');
    return undefined;
  }
}

/**
 * The body of a success that cannot be read, though its beginning is that of the provider: it may
 * be whole the next time.
 */
export function brokenAnswer(what: string): DirectHttpError {
  const message = `the answer was cut off or changed on its way: ${what}`;
  return new DirectHttpError('BAD_BODY', message, { phase: 'body' });
}
