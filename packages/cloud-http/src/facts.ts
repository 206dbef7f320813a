import { SETTINGS, type StoreFact } from '@holdfast/core/contract';

/** A fact with a meaning is a warning. */
export function fact(id: string, title: string, seen: string, meaning?: string, advice = ''): StoreFact {
  return { id, title, seen, ...(meaning !== undefined && { concern: { meaning, advice } }) };
}

export function daysText(days: number): string {
  return days === 1 ? '1 day' : `${days} days`;
}

/**
 * How much all writers of a job together can send to a service that takes so many writes per
 * second. `where`: to what the limit applies, and how it grows.
 */
export function requestRateFact(writesPerSecond: number, where: string): StoreFact {
  const partSizeBytes = SETTINGS.partSizeBytesMin.default;
  const gibPerSecond = Math.round((writesPerSecond * partSizeBytes) / 2 ** 30);
  const rate = `${writesPerSecond.toLocaleString('en-US')} writes/s ${where}`;
  const bytes = `${gibPerSecond} GiB/s in parts of ${partSizeBytes / 2 ** 20} MiB`;
  return fact('request-rate', 'request rate', `${rate}: ${bytes}, more with a larger partSizeBytesMin`);
}
