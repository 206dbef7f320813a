import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, symlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { trustedSocket } from './trusted-socket.ts';

const root = mkdtempSync(join(realpathSync(tmpdir()), 'holdfast-socket-'));
const above = join(root, 'above');
const path = join(above, 'own', 'agent.sock');
const server = createServer();

beforeAll(async () => {
  mkdirSync(join(above, 'own'), { recursive: true, mode: 0o700 });
  server.listen(path);
  await once(server, 'listening');
});

afterAll(async () => {
  server.close();
  await rm(root, { recursive: true });
});

describe('trustedSocket', () => {
  test('a socket that only this user can exchange', () => {
    expect(trustedSocket(path, {})).toBe(path);
  });

  test('a link to a directory is followed before the look, so it cannot change afterwards', () => {
    symlinkSync(join(above, 'own'), join(root, 'link'));
    expect(trustedSocket(join(root, 'link', 'agent.sock'), {})).toBe(path);
  });

  test('a link to a socket is refused', () => {
    symlinkSync(path, join(root, 'agent.sock'));
    const asked = () => trustedSocket(join(root, 'agent.sock'), {});
    expect(asked).toThrow(`${root}/agent.sock is a symbolic link: name the socket that it leads to`);
  });

  test.each([
    ['the directory', join(above, 'own')],
    ['a directory further above', above],
  ])('%s that others may write is refused', (_, directory) => {
    try {
      chmodSync(directory, 0o777);
      const says = `${directory} has mode 0777, so that other users could replace the socket; run: chmod go-w ${directory}`;
      expect(() => trustedSocket(path, {})).toThrow(says);
      chmodSync(directory, 0o1777);
      if (directory === above) expect(trustedSocket(path, {})).toBe(path);
    } finally {
      chmodSync(directory, 0o700);
    }
  });

  test('no socket, and no directory, are found when it is asked', () => {
    expect(trustedSocket(join(above, 'other.sock'), {})).toBe(join(above, 'other.sock'));
    expect(trustedSocket('/does/not/exist.sock', {})).toBe('/does/not/exist.sock');
  });
});
