/** `bench local`: compares the local store with the machine's own speed. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { largeFile, type Row, smallFiles } from './local.ts';

const GIB = 1024 ** 3;

/** Prints a table. With `--out DIR` it also writes `local.json` there. */
export async function benchLocal(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
    },
  });
  const rounds = Number(values.rounds);
  const directory = mkdtempSync(join(values.dir, 'holdfast-bench-'));
  const rows: Row[] = [];
  try {
    rows.push(...(await largeFile(directory, 2 * GIB, rounds)));
    rows.push(
      ...(await largeFile(directory, 4 * GIB, Math.min(rounds, 3))).filter((row) => row.what.includes('RSS')),
    );
    rows.push(...(await smallFiles(directory, 1000, 4096, Math.max(rounds, 5))));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const [cpu] = cpus();
  const machine = `${cpus().length} × ${cpu?.model ?? 'cpu'}, Linux ${release()}, Node ${process.version}, ${rounds} rounds`;
  const lines = rows.map(
    (row) =>
      `| ${row.what} | ${row.target} | ${row.found} | ${row.target === '' ? '' : row.isMet ? 'yes' : '**no**'} |`,
  );
  process.stdout.write(
    `${machine}; median [min–max]\n\n| what | target | found | met |\n|---|---|---|---|\n${lines.join('\n')}\n`,
  );
  if (values.out === undefined) return;
  mkdirSync(values.out, { recursive: true });
  writeFileSync(join(values.out, 'local.json'), `${JSON.stringify({ machine, rows }, null, 2)}\n`);
}
