/** The native code of the engine, compiled from these sources, computes what CRC32C is. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
// @boundaries-ignore packing compiles it
import { compiledCode, NATIVE_TITLE } from '../../scripts/pack/native-code.ts';
import { NODES, nodeProgram, ROOT } from '../artifacts/artifacts.ts';
import { run } from '../e2e/holdfast-process.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';

const COMPARE = fileURLToPath(new URL('compare.mjs', import.meta.url));

const why = await whyNone(
  NATIVE_TITLE,
  () => compiledCode(ROOT),
  async () => undefined,
);
const open = async () => ({ directory: await compiledCode(ROOT), stop: async () => undefined });

describeOnServer({ suite: 'native', name: NATIVE_TITLE, whyNone: why, open }, (code) => {
  const file = (arch: string) => join(code().directory, `crc32c-linux-${arch}.node`);

  test.each(NODES)('every kernel computes it for any bytes, on Node %i', async (major) => {
    const ended = await run([nodeProgram(major), COMPARE, file(process.arch)]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const { kernels, asked, wrong } = JSON.parse(ended.stdout);
    expect({ wrong, hasAll: asked > 65_000 * kernels.length }).toEqual({ wrong: [], hasAll: true });
    expect(kernels).toContain('128 bits');
  });

  test.each(['x64', 'arm64'])('for %s it needs no library', (arch) => {
    const text = readFileSync(file(arch), 'latin1');
    expect(text).toContain('napi_register_module_v1');
    expect(text).not.toMatch(/\.so\b|GLIBC|memcpy|memset/);
  });
});
