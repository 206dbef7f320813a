/** What the demo holds Holdfast to. */

import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { filesOfWriter, type Model, type Step, WRITER_COUNT } from './model.ts';

/** An expectation that failed; its message is for people. */
export class DemoFailure extends Error {}

export function expectThat(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) throw new DemoFailure(what);
}

/** Makes every tensor of `step` again and compares it with the file of its name; there must be no other file. */
export async function expectSameBytes(
  directory: string,
  model: Model,
  step: Step,
): Promise<{ fileCount: number; sizeBytes: number }> {
  const unexpected = new Set(await filesBelow(directory));
  let fileCount = 0;
  let sizeBytes = 0;
  for (let writer = 0; writer < WRITER_COUNT; writer++) {
    for (const [name, expected] of Object.entries(filesOfWriter(writer, model, step))) {
      expectThat(unexpected.delete(name), `${name} was not restored`);
      expectEqual(name, await readFile(join(directory, name)), expected);
      fileCount += 1;
      sizeBytes += expected.byteLength;
    }
  }
  expectThat(unexpected.size === 0, `nobody saved ${[...unexpected].join(', ')}`);
  return { fileCount, sizeBytes };
}

function expectEqual(name: string, found: Uint8Array, expected: Uint8Array): void {
  expectThat(
    found.byteLength === expected.byteLength,
    `${name} has ${found.byteLength} bytes, expected ${expected.byteLength}`,
  );
  if (Buffer.compare(found, expected) === 0) return;
  const at = expected.findIndex((byte, index) => byte !== found[index]);
  throw new DemoFailure(`${name} differs at byte ${at}: expected ${expected[at]}, found ${found[at]}`);
}

/** Names relative to the directory, with slashes. */
async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).replaceAll(sep, '/'));
}
