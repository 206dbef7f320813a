import { describe, expect, it } from 'vitest';
import { voidedText } from './job.ts';

const found = { writer: 1, versions: [3n], isComplete: true, process: { host: 'node-7', pid: 42 }, life: '' };

describe('voidedText', () => {
  it('names the versions, the process and its life', () => {
    expect(voidedText(found)).toBe(
      'version 3, delivered by process 42 on node-7, can no longer be committed: this process replaced it as writer 1',
    );
    expect(voidedText({ ...found, versions: [3n, 4n], life: 'ps-1' })).toMatch(
      /^versions 3, 4, delivered by life ps-1 \(first seen as process 42 on node-7\), can no longer/,
    );
  });

  it('names some of very many, and says where there may be others', () => {
    const versions = Array.from({ length: 10 }, (_, at) => BigInt(at));
    expect(voidedText({ ...found, versions, isComplete: false })).toMatch(
      /^versions 0, 1, 2, 3, 4, 5, 6, 7 and 2 more, and perhaps others, delivered by /,
    );
  });

  it('says so where neither versions nor process are known', () => {
    const unknown = { ...found, versions: [], isComplete: false, process: { host: '', pid: 0 } };
    expect(voidedText(unknown)).toMatch(
      /^everything that an earlier process delivered and that is not committed can no longer be committed/,
    );
  });
});
