/** Negative, zero or positive as `a` comes before, is or comes after `b` in the order of their UTF-8 bytes. Both are well-formed. */
export function compareUtf8(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return utf8Rank(x) - utf8Rank(y);
  }
  return a.length - b.length;
}

/** UTF-16 puts surrogates (characters above U+FFFF) before U+E000 to U+FFFF, UTF-8 puts them after. */
function utf8Rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
