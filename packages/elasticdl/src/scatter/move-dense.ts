/** Moves each variable whole, in pieces, to the one shard that holds it. */

import { atATime } from '@holdfast/core/contract';
import type { TensorPlace } from '../layout.ts';
import type { ShardSink } from '../sink.ts';
import type { Arena } from './arena.ts';
import { Pool } from './at-once.ts';
import type { Part } from './merge-layouts.ts';
import type { OnceSource } from './once-source.ts';

export interface DenseMove extends Part<TensorPlace> {
  readonly sink: ShardSink;
}

export async function moveDense(
  moves: readonly DenseMove[],
  options: {
    readonly sources: readonly OnceSource[];
    readonly arena: Arena;
    readonly signal: AbortSignal;
    readonly onMoved: (file: number, bytes: number) => void;
  },
): Promise<void> {
  const { sources, arena, signal, onMoved } = options;
  const stretches = new Pool(arena.incoming);
  await atATime(moves, arena.incoming.length, async ({ file, place, sink }) => {
    const stretch = await stretches.take();
    try {
      const { offsetBytes, lengthBytes } = place.content;
      for (let doneBytes = 0; doneBytes < lengthBytes; ) {
        signal.throwIfAborted();
        const pieceBytes = Math.min(arena.incomingBytes, lengthBytes - doneBytes);
        const piece = new Uint8Array(arena.memory, stretch.offsetBytes, pieceBytes);
        await sources[file]?.readInto(offsetBytes + doneBytes, piece);
        await sink.putDense(place.name, doneBytes, piece);
        doneBytes += pieceBytes;
        onMoved(file, pieceBytes);
      }
    } finally {
      stretches.give(stretch);
    }
  });
}
