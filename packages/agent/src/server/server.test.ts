import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Agent } from '../agent.ts';
import { serverOf } from './server.ts';

const BODY =
  'POST /v1/pins HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{';

/** Everything that arrives until the other side ends. */
async function allOf(socket: Socket): Promise<string> {
  let text = '';
  for await (const bytes of socket) text += String(bytes);
  return text;
}

test.each([
  ['head', 'GET /healthz HTTP/1.1\r\nhost: a\r\n'],
  ['body', BODY],
])(
  'a request whose %s does not arrive in time is refused, and others are served on',
  async (_, beginning) => {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-server-'));
    const agent = { config: { token: undefined }, isStopping: false } as unknown as Agent;
    const server = serverOf(agent, { version: '1', end: () => undefined }, 300);
    try {
      const path = join(directory, 'socket');
      server.listen(path);
      await once(server, 'listening');
      const slow = connect(path);
      slow.write(beginning);
      const answer = await allOf(slow);
      expect(answer).toMatch(/^HTTP\/1\.1 408 /);
      const quick = connect(path);
      quick.write('GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
      expect(await allOf(quick)).toContain('"status":"ok"');
    } finally {
      server.closeAllConnections();
      server.close();
      await rm(directory, { recursive: true });
    }
  },
);
