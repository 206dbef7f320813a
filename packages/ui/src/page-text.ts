/** The text of the page. In the packed command this module holds the page itself. */

import { readFile } from 'node:fs/promises';

/** `npm run build` writes the file. */
export function readPage(): Promise<string> {
  return readFile(new URL('../dist/page.html', import.meta.url), 'utf8');
}
