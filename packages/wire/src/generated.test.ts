import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { describe, expect, test } from 'vitest';
import { render } from '../scripts/render.ts';
import { ENUMS, MESSAGES } from './index.ts';

function rendered(source: string): string {
  const options = { keepCase: true, alternateCommentMode: true };
  const { root } = protobuf.parse(`syntax = "proto3"; package holdfast.v1; ${source}`, options);
  root.resolveAll();
  return render(root);
}

test('generated.ts and elasticdl.ts are what proto/ says', () => {
  const script = fileURLToPath(new URL('../scripts/generate.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});

test('every type that a field has is a scalar, an enum or a message of the schema', () => {
  const scalars = ['string', 'bool', 'bytes', 'uint32', 'double', 'int64-number', 'int64-bigint'];
  const known = { scalar: scalars, enum: Object.keys(ENUMS), message: Object.keys(MESSAGES) };
  for (const fields of Object.values(MESSAGES)) {
    for (const { kind, type } of fields) expect(known[kind]).toContain(type);
  }
});

describe('render', () => {
  test('each kind of field has its TypeScript type and its schema', () => {
    const text = rendered(`
      enum Colour { COLOUR_UNSPECIFIED = 0; RED = 1; }
      message Part { string name = 1; }
      // What it is.
      message Whole {
        // How many
        // there are.
        int64 item_count = 1 [jstype = JS_NUMBER];
        int64 step = 2 [jstype = JS_STRING];
        bytes crc32c_of_parts = 3;
        Colour colour = 4;
        Part part = 5;
        repeated Part parts = 6;
        map<uint32, double> by_number = 7;
        map<string, string> by_name = 8;
      }`);
    expect(text).toContain("export type Colour = 'COLOUR_UNSPECIFIED' | 'RED';");
    expect(text).toContain('/** What it is. */\nexport interface Whole {');
    expect(text).toContain('  /**\n   * How many\n   * there are.\n   */\n  readonly itemCount: number;');
    expect(text).toContain('readonly step: bigint;');
    expect(text).toContain('readonly crc32cOfParts: Uint8Array;');
    expect(text).toContain('readonly colour: Colour;');
    expect(text).toContain('readonly part?: Part | undefined;');
    expect(text).toContain('readonly parts: readonly Part[];');
    expect(text).toContain('readonly byNumber: Readonly<Record<string, number>>;');
    expect(text).toContain("{ name: 'byName', kind: 'scalar', type: 'string', mapKey: 'string' },");
    expect(text).toContain("{ name: 'itemCount', kind: 'scalar', type: 'int64-number' },");
    expect(text).toContain("{ name: 'parts', kind: 'message', type: 'Part', repeated: true },");
    expect(text).toContain("Colour: ['COLOUR_UNSPECIFIED', 'RED'],");
  });

  test('a field that is always present is required in type and schema', () => {
    const text = rendered(
      'message CheckpointId { uint32 epoch = 1; } message Removed { CheckpointId id = 1; }',
    );
    expect(text).toContain('readonly id: CheckpointId;');
    expect(text).toContain("{ name: 'id', kind: 'message', type: 'CheckpointId', required: true },");
  });

  test.each([
    ['message A { int64 n = 1; }', 'an int64 needs jstype'],
    ['message A { float x = 1; }', 'does not know the type float'],
    ['message A { uint64 x = 1; }', 'does not know the type uint64'],
    ['message A { map<bool, string> x = 1; }', 'does not know map keys of type bool'],
    ['message A { oneof choice { string x = 1; } }', 'does not know oneof'],
    ['message A { optional string x = 1; }', 'does not know oneof and optional'],
    ['message A { message B { string x = 1; } B b = 1; }', 'does not know nested types'],
    ['message Removed { string id = 1; }', 'Removed.id is to be always present, but is no message field'],
  ])('%s is refused', (source, message) => {
    expect(() => rendered(source)).toThrow(message);
  });

  test('without the package there is nothing to render', () => {
    expect(() => render(new protobuf.Root())).toThrow('no package holdfast.v1');
  });
});
