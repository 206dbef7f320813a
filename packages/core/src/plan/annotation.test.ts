import { describe, expect, test } from 'vitest';
import type { CatalogCheckpoint } from '../format/index.ts';
import { annotated, annotationBeyond, annotationProblem, annotationText } from './annotation.ts';

const CHECKPOINT = {
  metrics: { loss: 2, auc: 0.5 },
  annotatedMetadata: { note: 'first' },
} as unknown as CatalogCheckpoint;
const none = { metrics: {}, metadata: {} };

describe('annotated', () => {
  test('the last value of a name stands, and others keep theirs', () => {
    const once = annotated(CHECKPOINT, { metrics: { auc: 0.9 }, metadata: { by: 'eval-3' } });
    const twice = annotated(once, { metrics: { f1: 0.1 }, metadata: { note: 'second' } });
    expect({ ...twice.metrics }).toEqual({ loss: 2, auc: 0.9, f1: 0.1 });
    expect({ ...twice.annotatedMetadata }).toEqual({ note: 'second', by: 'eval-3' });
  });

  test('what is known already changes nothing; minus zero is another value than zero', () => {
    expect(annotated(CHECKPOINT, { metrics: { auc: 0.5 }, metadata: { note: 'first' } })).toBe(CHECKPOINT);
    const zero = annotated(CHECKPOINT, { ...none, metrics: { auc: 0 } });
    expect(annotated(zero, { ...none, metrics: { auc: -0 } }).metrics['auc']).toBe(-0);
  });

  test('a name that every object answers to is a name like any other', () => {
    const metrics = Object.fromEntries([
      ['__proto__', 1],
      ['constructor', 2],
    ]);
    const checkpoint = annotated(CHECKPOINT, { metrics, metadata: {} });
    expect(Object.keys(checkpoint.metrics)).toEqual(['loss', 'auc', '__proto__', 'constructor']);
    expect(annotated(CHECKPOINT, { ...none, metrics: { f1: 1 } }).metrics['constructor']).toBeUndefined();
  });
});

test('a checkpoint has 256 metrics and 4,096 bytes of annotated metadata at most, with what it had before', () => {
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${at}`, at]));
  expect(annotationProblem(annotated(CHECKPOINT, { ...none, metrics: many(254) }))).toBeUndefined();
  expect(annotationProblem(annotated(CHECKPOINT, { ...none, metrics: many(255) }))).toBe(
    'it would have 257 metrics; a checkpoint has at most 256',
  );
  const note = (length: number) => annotated(CHECKPOINT, { ...none, metadata: { note: 'é'.repeat(length) } });
  expect(annotationProblem(note(2042))).toBeUndefined();
  expect(annotationProblem(note(2043))).toBe(
    'its annotated metadata would have 4097 bytes; a checkpoint takes at most 4096',
  );
});

test('what goes beyond what was said before', () => {
  const said = { metrics: { loss: 2, auc: 0.5 }, metadata: { note: 'first' } };
  const news = annotationBeyond(said, {
    metrics: { loss: 2, auc: 0.9 },
    metadata: { note: 'first', by: 'x' },
  });
  expect({ metrics: { ...news.metrics }, metadata: { ...news.metadata } }).toEqual({
    metrics: { auc: 0.9 },
    metadata: { by: 'x' },
  });
});

test('the log has it in words, which have an end', () => {
  const annotation = { metrics: { auc: 0.91, loss: 1e-7 }, metadata: { note: 'say "hello"' } };
  expect(annotationText(annotation)).toBe('auc=0.91, loss=1e-7, note="say \\"hello\\""');
  expect(annotationText({ ...none, metadata: { note: '🙂'.repeat(2000) } })).toHaveLength(1000);
});
