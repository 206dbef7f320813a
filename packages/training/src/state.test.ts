import { describe, expect, it } from 'vitest';
import { State } from './state.ts';

class Plain extends State {
  async sync(): Promise<void> {
    return undefined;
  }
}

class Model extends Plain {
  weights = Float32Array.of(0.5, -0.25);
  step = 2n ** 62n;

  override snapshot(): unknown {
    return { weights: this.weights.slice(), step: this.step };
  }

  override apply(snapshot: { weights: Float32Array<ArrayBuffer>; step: bigint } | null): void {
    if (snapshot !== null) Object.assign(this, snapshot);
  }
}

async function savedBy(state: State): Promise<{ bytes: Uint8Array; isClosed: boolean }> {
  const chunks: Uint8Array[] = [];
  let isClosed = false;
  const stream = new WritableStream<Uint8Array>({
    write: (chunk) => void chunks.push(chunk),
    close: () => {
      isClosed = true;
    },
  });
  await state.save(stream);
  expect(stream.locked).toBe(false);
  return { bytes: Buffer.concat(chunks), isClosed };
}

describe('State, unless overridden', () => {
  it('has no snapshot, is never to be saved, and takes null', () => {
    const state = new Plain();
    expect(state.snapshot()).toBeNull();
    expect(state.shouldSaveCheckpoint(0)).toBe(false);
    state.apply(null);
  });

  it('apply: a snapshot is Unsupported, by the name of the class', () => {
    expect(() => new Plain().apply({})).toThrow(
      expect.objectContaining({
        code: 'Unsupported',
        message: 'Plain has snapshots, but no apply() for them',
      }),
    );
  });

  it('save: an array of 4 GiB is Unsupported, because its size would be recorded wrongly', async () => {
    class Huge extends Model {
      override snapshot(): unknown {
        return { small: new Uint8Array(3), large: new Uint8Array(2 ** 32) };
      }
    }
    await expect(savedBy(new Huge())).rejects.toMatchObject({
      code: 'Unsupported',
      message: expect.stringContaining('an array of 4294967296 bytes'),
    });
  });

  it('save and load: a snapshot goes into another object, typed arrays and bigints too, the stream stays open', async () => {
    const state = new Model();
    state.weights = Float32Array.of(1.5, 2.5, 3.5);
    state.step = -7n;
    const { bytes, isClosed } = await savedBy(state);
    expect(isClosed).toBe(false);
    const other = new Model();
    // In small pieces, as a stream may deliver it.
    await other.load(ReadableStream.from([...bytes].map((byte) => Uint8Array.of(byte))));
    expect(other).toEqual(state);
  });

  it('save: without a snapshot there is nothing to save, and no empty checkpoint is made', async () => {
    await expect(savedBy(new Plain())).rejects.toMatchObject({ code: 'Unsupported' });
  });

  it('load: bytes that are no snapshot, torn or none, are Corrupt, and the state stays', async () => {
    const { bytes } = await savedBy(new Model());
    for (const damaged of [
      bytes.subarray(0, bytes.byteLength - 5),
      Buffer.from('PK\u0003\u0004torch'),
      Buffer.of(),
    ]) {
      const state = new Model();
      await expect(state.load(ReadableStream.from([damaged]))).rejects.toMatchObject({ code: 'Corrupt' });
      expect(state).toEqual(new Model());
    }
  });
});
