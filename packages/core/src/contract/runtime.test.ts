import { describe, expect, it } from 'vitest';
import { assertNode, NODE_MAJOR_MIN } from './runtime.ts';

describe('assertNode', () => {
  it.each([`${NODE_MAJOR_MIN}.0.0`, '24.21.0', '100.0.0', undefined])('%s is taken', (version) => {
    expect(() => assertNode(version)).not.toThrow();
  });

  it.each(['20.20.2', '18.0.0', '9.1.0'])('%s is Unsupported', (version) => {
    expect(() => assertNode(version)).toThrow(
      expect.objectContaining({
        code: 'Unsupported',
        message: `Holdfast needs Node 22 or newer; this is Node ${version}`,
      }),
    );
  });
});
