/**
 * The URI of what lies below the place of another URI. It keeps the settings after the "?". `name`:
 * relative, as stored; empty: the place itself.
 */
export function uriBelow(uri: string, name: string): string {
  if (name === '') return uri;
  const [, place = '', query = ''] = /^([^?]*)(\?.*)?$/s.exec(uri) ?? [];
  // The characters that mean something in a URI. Stores decode them again.
  const escaped = name.replace(/[%?#\s]/gu, (character) => encodeURIComponent(character));
  return `${place.replace(/\/$/, '')}/${escaped}${query}`;
}
