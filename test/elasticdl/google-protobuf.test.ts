import { fileURLToPath } from 'node:url';
import { decodeShard, encodeShard, type Form, type ModelShard, type WrittenForm } from '@holdfast/elasticdl';
import { beforeAll, expect, test } from 'vitest';
import { describeWithPython, runPython } from '../python/run-python.ts';
import { heldByForm, LARGE_MODEL, numberingOf, pythonCase, randomModels } from './models-by-form.ts';

const FORMS: readonly Form[] = ['S0', 'S1', 'S2', 'S2a', 'S3', 'S4', 'S5', 'S6', 'S7'];
const WRITTEN: readonly WrittenForm[] = ['S4', 'S7'];
const MODELS_PER_FORM = 12;

interface Case {
  readonly form: Form;
  readonly model: ModelShard;
  readonly file: Uint8Array;
}

/** All in one call, because starting Python takes most of the time. */
async function serializedByPython(): Promise<Case[]> {
  const cases = [
    ...FORMS.flatMap((form) => randomModels(form, MODELS_PER_FORM).map((model) => ({ form, model }))),
    ...WRITTEN.map((form) => ({ form, model: heldByForm(LARGE_MODEL, form) })),
  ];
  const script = new URL('./google-protobuf.py', import.meta.url);
  const protoRoot = fileURLToPath(new URL('../../proto', import.meta.url));
  const input = JSON.stringify(cases.map(({ form, model }) => pythonCase(model, form)));
  const files = JSON.parse(await runPython(script, [protoRoot], input)) as string[];
  expect(files.length).toBe(cases.length);
  return cases.map((it, index) => ({
    ...it,
    file: Uint8Array.from(Buffer.from(files[index] ?? '', 'base64')),
  }));
}

describeWithPython('files of ElasticDL, by us and by google.protobuf', () => {
  let cases: readonly Case[] = [];
  beforeAll(async () => {
    cases = await serializedByPython();
  }, 60_000);

  test.each(WRITTEN)('%s: what we write is what Python writes, to the byte', (form) => {
    for (const { model, file } of cases.filter((it) => it.form === form)) {
      const encoded = encodeShard(model, form);
      expect(Buffer.concat([...encoded.chunks()]).toString('hex')).toBe(Buffer.from(file).toString('hex'));
      expect(encoded.sizeBytes).toBe(file.length);
    }
  });

  test.each(FORMS)('%s: what Python writes is to us what it was', async (form) => {
    const own = cases.filter((it) => it.form === form);
    expect(own.length).toBeGreaterThanOrEqual(MODELS_PER_FORM);
    for (const { model, file } of own) {
      const decoded = await decodeShard(file, { numbering: numberingOf(form) });
      expect(decoded).toEqual(model);
    }
  });

  test.each(WRITTEN)('%s: decoded and encoded again, it is the same file', async (form) => {
    for (const { file } of cases.filter((it) => it.form === form)) {
      const decoded = await decodeShard(file, { numbering: numberingOf(form) });
      expect(Buffer.concat([...encodeShard(decoded, form).chunks()]).equals(file)).toBe(true);
    }
  });
});
