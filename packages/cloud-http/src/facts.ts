import type { StoreFact } from '@holdfast/core/contract';

/** A fact with a meaning is a warning. */
export function fact(id: string, title: string, seen: string, meaning?: string, advice = ''): StoreFact {
  return { id, title, seen, ...(meaning !== undefined && { concern: { meaning, advice } }) };
}

export function daysText(days: number): string {
  return days === 1 ? '1 day' : `${days} days`;
}
