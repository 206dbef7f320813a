/** Copies rows to their buffers. This code runs once for each row of a model. */

/**
 * Shorter rows are copied word by word, longer ones by a call. Measured: a call is faster from here
 * on.
 */
const CALL_BYTES_MIN = 64;

/** By slot: the position of the next row, and where the room ends. All are offsets in the arena. */
export interface Outlets {
  /** In bytes. */
  readonly valueAt: Int32Array;
  /** In words of 32 bits; an id takes two. */
  readonly idAt: Int32Array;
  /**
   * Exclusive. When `idAt` equals it, there is no room; this also holds before the first buffer.
   */
  readonly idEnd: Int32Array;
}

export interface RowsToCopy {
  readonly rowBytes: number;
  /** Offset in the arena of the row at position `positions[from]`. */
  readonly offsetBytes: number;
  readonly positions: Uint16Array;
  /** Two words for each id. */
  readonly halves: Int32Array;
  readonly from: number;
  readonly to: number;
  /** Slot of row `from + i`. */
  readonly slots: Uint32Array;
}

/** Whether `copyRows` copies by words; values must then start at a multiple of 4 bytes. */
export function goesByWords(rowBytes: number): boolean {
  return rowBytes < CALL_BYTES_MIN && rowBytes % 4 === 0;
}

/** Copies rows from `start` on, until there is no room for one. Returns its index, or `to`. */
export function copyRows(memory: Views, outlets: Outlets, rows: RowsToCopy, start: number): number {
  return goesByWords(rows.rowBytes)
    ? copyByWords(memory, outlets, rows, start)
    : copyByCalls(memory, outlets, rows, start);
}

/** Views of the same memory. */
export interface Views {
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
}

function copyByCalls({ bytes, words }: Views, outlets: Outlets, rows: RowsToCopy, start: number): number {
  const { valueAt, idAt, idEnd } = outlets;
  const { rowBytes, positions, halves, from, to, slots } = rows;
  const base = rows.offsetBytes - (positions[from] as number) * rowBytes;
  for (let row = start; row < to; row++) {
    const slot = slots[row - from] as number;
    const id = idAt[slot] as number;
    if (id === idEnd[slot]) return row;
    const target = valueAt[slot] as number;
    const source = base + (positions[row] as number) * rowBytes;
    bytes.copyWithin(target, source, source + rowBytes);
    valueAt[slot] = target + rowBytes;
    words[id] = halves[2 * row] as number;
    words[id + 1] = halves[2 * row + 1] as number;
    idAt[slot] = id + 2;
  }
  return to;
}

function copyByWords({ words }: Views, outlets: Outlets, rows: RowsToCopy, start: number): number {
  const { valueAt, idAt, idEnd } = outlets;
  const { rowBytes, positions, halves, from, to, slots } = rows;
  const rowWords = rowBytes >> 2;
  const base = (rows.offsetBytes >> 2) - (positions[from] as number) * rowWords;
  for (let row = start; row < to; row++) {
    const slot = slots[row - from] as number;
    const id = idAt[slot] as number;
    if (id === idEnd[slot]) return row;
    const target = (valueAt[slot] as number) >> 2;
    const source = base + (positions[row] as number) * rowWords;
    for (let word = 0; word < rowWords; word++) words[target + word] = words[source + word] as number;
    valueAt[slot] = (target + rowWords) << 2;
    words[id] = halves[2 * row] as number;
    words[id + 1] = halves[2 * row + 1] as number;
    idAt[slot] = id + 2;
  }
  return to;
}
