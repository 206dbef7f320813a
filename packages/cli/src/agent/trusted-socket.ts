/**
 * Whether only trusted users can be behind a socket: this user, root, and the one that
 * `HOLDFAST_AGENT_UID` names. The Python client decides in the same way.
 */

import { lstatSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { CheckpointError } from '@holdfast/core/contract';
import type { Environment } from '../sourced.ts';

/**
 * Call it before anything is sent, such as a token. `InvalidConfig`: another user could be behind
 * the socket, or may use it. Passes if there is no socket.
 */
export function assertTrustedSocket(path: string, env: Environment): void {
  const trusted = trustedUsers(env);
  const directory = dirname(path);
  const above = look(() => statSync(directory));
  const socket = look(() => lstatSync(path));
  if (above === undefined || socket === undefined) return;
  if (!trusted.has(above.uid))
    throw untrusted(directory, `belongs to user ${above.uid}, who could replace the socket`);
  const isSticky = (above.mode & 0o1000) !== 0;
  if ((above.mode & 0o022) !== 0 && !isSticky) {
    const what = `has mode ${modeOf(above)}, so that other users could replace the socket; run: chmod go-w ${directory}`;
    throw untrusted(directory, what);
  }
  if (!trusted.has(socket.uid)) throw untrusted(path, `belongs to user ${socket.uid}`);
  const isReachable = (above.mode & 0o077) !== 0;
  if (socket.isSocket() && isReachable && (socket.mode & 0o007) !== 0)
    throw untrusted(path, `has mode ${modeOf(socket)}, so that any user may use it; run: chmod o= ${path}`);
}

function trustedUsers({ HOLDFAST_AGENT_UID: given }: Environment): ReadonlySet<number> {
  const trusted = new Set([process.getuid?.() ?? 0, 0]);
  if (!given) return trusted;
  if (!/^\d{1,10}$/.test(given))
    throw new CheckpointError('InvalidConfig', 'HOLDFAST_AGENT_UID: expected a number, the id of a user');
  return trusted.add(Number(given));
}

/** `undefined`: it cannot be looked at. Connecting then fails, and says why. */
function look(stat: () => Stats): Stats | undefined {
  try {
    return stat();
  } catch {
    return undefined;
  }
}

function modeOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

function untrusted(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidConfig', `${path} ${what}`, { context: { path } });
}
