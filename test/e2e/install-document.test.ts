/** Runs the commands that docs/install.md gives for systemd and Kubernetes exactly as printed. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { holdfast, savedPlace } from './holdfast-process.ts';

const MANUAL = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8');

const SERVICES = Array.from(MANUAL.matchAll(/^ExecStart=\S+ (.*)$/gm), ([, line = '']) => line.split(' '));
const CONTAINERS = Array.from(
  MANUAL.matchAll(/^ +args: (\[.*\])$/gm),
  ([, list = '']) => JSON.parse(list) as string[],
);
const LINES = new Map([...SERVICES, ...CONTAINERS].map((words) => [words.join(' '), words]));

test('there are two of each', () => {
  expect([SERVICES.length, CONTAINERS.length]).toEqual([2, 2]);
});

test.each([...LINES])('holdfast %s', async (_, words) => {
  const place = await savedPlace(1);
  const args = words.map((word) => (/^(s3:|\$\{HOLDFAST_URI\})/.test(word) ? place.uri : word));
  expect(args).toContain(place.uri);
  expect(await holdfast(args)).toMatchObject({ code: 0 });
});
