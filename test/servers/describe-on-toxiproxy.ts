/** Suites that need a bad network. */

import type { Suite } from './config.ts';
import { goProgram, TOXIPROXY } from './go-program.ts';
import { describeOnServer, whyNone } from './server-suite.ts';
import { startToxiproxy, type Toxiproxy } from './toxiproxy.ts';

const WHY_NO_TOXIPROXY = await whyNone(TOXIPROXY.title, () => goProgram(TOXIPROXY));

/**
 * A `describe` with a Toxiproxy that runs as long as it. Use it inside the `describe` of the server
 * behind the proxy.
 */
export function describeOnToxiproxy(
  suite: Suite,
  name: string,
  body: (toxiproxy: () => Toxiproxy) => void,
): void {
  const open = () => startToxiproxy();
  describeOnServer({ suite, name, whyNone: WHY_NO_TOXIPROXY, open }, body);
}
