/**
 * Parses answers that are documents. A truncated document must never pass for a complete one, even
 * if it ends where its HTTP framing says.
 */

import { DirectHttpError } from '@holdfast/direct-http';

/**
 * Tells whether this is an XML document whose root element matches `roots`. False: it is a document
 * of another kind. Throws `BAD_BODY` if the end of the document is missing. `isOfStore`: the
 * headers show that the store itself answered. A document of another kind was then changed on its
 * way, so it throws `BAD_BODY` too.
 */
export function isXmlOf(xml: string, roots: RegExp, isOfStore = false): boolean {
  const isOfKind = hasRoot(xml.trimStart(), roots, isOfStore);
  if (!isOfKind && isOfStore) throw brokenAnswer('its root is another element than that of such an answer');
  return isOfKind;
}

function hasRoot(text: string, roots: RegExp, isOfStore: boolean): boolean {
  if (text === '' && isOfStore) throw brokenAnswer('it has no bytes');
  const [declaration = ''] = /^<\?xml[^>]*>\s*/.exec(text) ?? [];
  const content = text.slice(declaration.length);
  const [tag, name = ''] = /^<([\w:]+)(?=[\s/>])/.exec(content) ?? [];
  if (tag === undefined) {
    if (text.startsWith('<?xml') && !content.includes('>'))
      throw brokenAnswer('it ends right after it begins');
    return false;
  }
  if (!roots.test(name)) return false;
  const end = `</${name}`;
  const endAt = content.lastIndexOf(end);
  const hasEnd = endAt !== -1 && /^\s*>/.test(content.slice(endAt + end.length));
  if (!hasEnd && !/^<[^<>]*\/>/.test(content)) throw brokenAnswer(`it has no </${name}>`);
  assertNested(content);
  return true;
}

/** Deeper than any answer of a store. */
const DEPTH_MAX = 32;

/** A changed tag would hide an element, so each element must end before the one around it. */
function assertNested(content: string): void {
  const open: string[] = [];
  for (const [, isEnd, name = '', isEmpty] of content.matchAll(/<(\/?)([\w:.-]+)[^<>]*?(\/?)>/g)) {
    if (isEnd === '/') {
      if (open.pop() !== name) throw brokenAnswer(`its </${name}> ends another element`);
    } else if (isEmpty !== '/') open.push(name);
    if (open.length > DEPTH_MAX) throw brokenAnswer('its elements are nested too deeply');
  }
  if (open.length > 0) throw brokenAnswer(`it has no </${open.at(-1)}>`);
}

/**
 * Parses a JSON value; undefined for a document of another kind. Throws `BAD_BODY` for a truncated
 * object. `isOfStore`: as in `isXmlOf`, so every document that is not JSON throws `BAD_BODY`.
 */
export function jsonValue(json: string, isOfStore = false): unknown {
  const text = json.trim();
  if (text === '' && isOfStore) throw brokenAnswer('it has no bytes');
  try {
    return JSON.parse(text);
  } catch {
    if (isOfStore || text.startsWith('{')) throw brokenAnswer('its JSON has no end, or is damaged');
    return undefined;
  }
}

/**
 * For the body of a success that the provider has sent and that cannot be read: it was truncated or
 * changed on its way, so a retry may get all of it.
 */
export function brokenAnswer(what: string): DirectHttpError {
  const message = `the answer was cut off or changed in transit: ${what}`;
  return new DirectHttpError('BAD_BODY', message, { phase: 'body' });
}
