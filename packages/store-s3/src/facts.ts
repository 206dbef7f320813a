import type { StoreFact } from '@holdfast/core/contract';

/** What was asked: the value, `undefined` where nothing is set, or why it is not told. */
export type Told<T> = { readonly value: T | undefined } | { readonly untold: string };

/** With a meaning it is a warning. */
export function fact(id: string, title: string, seen: string, meaning?: string, advice = ''): StoreFact {
  return { id, title, seen, ...(meaning !== undefined && { concern: { meaning, advice } }) };
}
