import { expect, test } from 'vitest';
import { describeWithPython, runPython } from './run-python.ts';

describeWithPython('runPython', () => {
  test('gives a script its arguments and its input, and returns what it prints', async () => {
    const script = 'import sys; print(sys.argv[1:], sys.stdin.buffer.read().hex(), "嵌入")';
    expect(await runPython(script, ['a', 'b c'], Uint8Array.of(0, 255))).toBe("['a', 'b c'] 00ff 嵌入\n");
  });

  test('the libraries are there at the versions that are pinned', async () => {
    const script =
      'import google.protobuf, numpy, safetensors.numpy as s, safetensors; print(google.protobuf.__version__, safetensors.__version__)';
    expect(await runPython(script)).toBe('6.33.6 0.7.0\n');
  });

  test('a script that fails is an error with its last words', async () => {
    await expect(runPython('raise SystemExit("no such thing")')).rejects.toThrow(
      'Python ended with status 1:\nno such thing',
    );
  });

  test('a script that does not read its input has no input', async () => {
    expect(await runPython('print(1)', [], new Uint8Array(1 << 20))).toBe('1\n');
  });
});
