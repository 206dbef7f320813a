import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { cpuMsOf, measureProcess, runToEnd } from './process-cost.ts';

const env = { PATH: process.env['PATH'] ?? '' };
const BURN = 'const end = process.cpuUsage().user + 150_000; while (process.cpuUsage().user < end);';

function burners(count: number, detached: boolean): string {
  const options = JSON.stringify({ detached, stdio: 'ignore' });
  return `const { spawn } = require('node:child_process');
    for (let i = 0; i < ${count}; i++) spawn(process.execPath, ['-e', ${JSON.stringify(BURN)}], ${options})${detached ? '.unref()' : ''};`;
}

async function cpuMs(script: string): Promise<number> {
  const { cost } = await measureProcess({ program: process.execPath, args: ['-e', script], env });
  return cost.userMs + cost.systemMs;
}

// Only the S3 measurements need both tools. A machine without them can still run all other tests.
const whyNot =
  process.platform !== 'linux'
    ? 'this is not Linux'
    : spawnSync('python3', ['--version']).error
      ? 'there is no python3'
      : undefined;
if (whyNot !== undefined) console.warn(`tests of the cost of processes are left out: ${whyNot}`);

describe.runIf(whyNot === undefined)('processes', () => {
  test('measureProcess: children count, waited for by their parent or left behind as orphans', async () => {
    expect(await cpuMs('0')).toBeLessThan(250);
    expect(await cpuMs(burners(2, false))).toBeGreaterThan(300);
    expect(await cpuMs(burners(2, true))).toBeGreaterThan(300);
  });

  test('measureProcess: peak memory is that of the program, and its output comes back', async () => {
    const script = "console.log('x'); Buffer.alloc(200 * 1024 * 1024, 1)";
    const { cost, stdout } = await measureProcess({ program: process.execPath, args: ['-e', script], env });
    expect(cost.peakRssBytes).toBeGreaterThan(200 * 1024 * 1024);
    expect(cost.peakRssBytes).toBeLessThan(400 * 1024 * 1024);
    expect(stdout).toBe('x\n');
  });

  test('measureProcess: a program that fails rejects with its own words', async () => {
    const args = ['-e', "console.error('no such bucket'); process.exit(3)"];
    await expect(measureProcess({ program: process.execPath, args, env })).rejects.toThrow(
      /ended with 3.*no such bucket/s,
    );
  });

  test('cpuMsOf: grows with the work of the process', () => {
    const before = cpuMsOf(process.pid);
    const end = process.cpuUsage().user + 100_000;
    while (process.cpuUsage().user < end);
    expect(cpuMsOf(process.pid) - before).toBeGreaterThanOrEqual(80);
  });
});

test('runToEnd: the error has what the program said, without the directory of the clone', async () => {
  const args = [
    '-e',
    `console.log(${JSON.stringify(process.cwd())} + '/test/x.py', 'failed'); process.exit(3)`,
  ];
  await expect(runToEnd({ program: process.execPath, args, env })).rejects.toThrow(
    /^it ended with 3: test\/x\.py failed$/m,
  );
});
