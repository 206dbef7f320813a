/**
 * Whether only trusted users can be behind a socket: this user, root, and the one that
 * `HOLDFAST_AGENT_UID` names. The Python client asks the system who serves the socket. Node cannot,
 * so no other user may be able to exchange a directory above it.
 */

import { lstatSync, realpathSync, type Stats } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CheckpointError } from '@holdfast/core/contract';
import type { Environment } from '../sourced.ts';

/**
 * The path to connect to, without links. Call it before anything is sent, such as a token.
 * `InvalidConfig`: another user could be behind the socket, or may use it. Passes if there is no
 * socket.
 */
export function trustedSocket(path: string, env: Environment): string {
  const trusted = trustedUsers(env);
  const directory = look(() => realpathSync(dirname(path)));
  if (directory === undefined) return path;
  const real = join(directory, basename(path));
  const socket = look(() => lstatSync(real));
  if (socket === undefined) return real;
  if (socket.isSymbolicLink()) throw untrusted(path, 'is a symbolic link: name the socket that it leads to');
  for (let above = directory; ; above = dirname(above)) {
    assertHeld(above, trusted);
    if (above === dirname(above)) break;
  }
  if (!trusted.has(socket.uid)) throw untrusted(path, `belongs to user ${socket.uid}`);
  const isReachable = (lstatSync(directory).mode & 0o077) !== 0;
  if (socket.isSocket() && isReachable && (socket.mode & 0o007) !== 0)
    throw untrusted(path, `has mode ${modeOf(socket)}, so that any user may use it; run: chmod o= ${path}`);
  return real;
}

/** Whether only trusted users can exchange what is in a directory. */
function assertHeld(directory: string, trusted: ReadonlySet<number>): void {
  const facts = lstatSync(directory);
  if (!trusted.has(facts.uid))
    throw untrusted(directory, `belongs to user ${facts.uid}, who could replace the socket`);
  const isSticky = (facts.mode & 0o1000) !== 0;
  if ((facts.mode & 0o022) === 0 || isSticky) return;
  const what = `has mode ${modeOf(facts)}, so that other users could replace the socket; run: chmod go-w ${directory}`;
  throw untrusted(directory, what);
}

function trustedUsers({ HOLDFAST_AGENT_UID: given }: Environment): ReadonlySet<number> {
  const trusted = new Set([process.getuid?.() ?? 0, 0]);
  if (!given) return trusted;
  if (!/^\d{1,10}$/.test(given))
    throw new CheckpointError('InvalidConfig', 'HOLDFAST_AGENT_UID: expected a number, the id of a user');
  return trusted.add(Number(given));
}

/** `undefined`: it cannot be looked at. Connecting then fails, and says why. */
function look<T>(at: () => T): T | undefined {
  try {
    return at();
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
