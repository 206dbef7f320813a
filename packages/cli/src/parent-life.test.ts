import { type CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { type ProcessTable, parentLife, thisSystem } from './parent-life.ts';

/** Fields 3 to 22: the state, 18 numbers, the start time. */
const STAT = `4711 (python (3) ps) S ${Array.from({ length: 18 }, (_, at) => at).join(' ')} 123456 9 9\n`;

function table(
  changes: Partial<ProcessTable> & { readonly files?: Record<string, string> } = {},
): ProcessTable {
  const files: Record<string, string> = {
    '/proc/sys/kernel/random/boot_id': '6a1f0c52-9e1b-4b53-9c7e-0f3f0d3c2b1a\n',
    '/proc/4711/stat': STAT,
    ...changes.files,
  };
  return {
    parentPid: changes.parentPid ?? 4711,
    readLink: changes.readLink ?? (() => 'pid:[4026531836]'),
    readText(path) {
      const text = files[path];
      if (text === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`);
      return text;
    },
  };
}

function errorOf(system: ProcessTable, from = '--life'): CheckpointError {
  try {
    parentLife(system, from);
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('parentLife', () => {
  it('is boot, namespace, id and start time of the parent', () => {
    expect(parentLife(table(), '--life')).toBe(
      'parent-6a1f0c52-9e1b-4b53-9c7e-0f3f0d3c2b1a-4026531836-4711-123456',
    );
  });

  it('is another one for a process that later has the same id', () => {
    const later = table({ files: { '/proc/4711/stat': STAT.replace('123456', '123457') } });
    expect(parentLife(later, '--life')).not.toBe(parentLife(table(), '--life'));
  });

  it('the life of this very process is the same each time', () => {
    expect(parentLife(thisSystem, '--life')).toBe(parentLife(thisSystem, '--life'));
  });

  it.each([
    [0, 'was started from outside its container'],
    [1, 'was started by process 1, or its parent has ended'],
  ])('a parent with id %i is no trainer', (parentPid, why) => {
    const error = errorOf(table({ parentPid }));
    expect([error.code, error.exitCode]).toEqual(['InvalidArgument', 2]);
    expect(error.message).toBe(`--life: "parent" does not identify a trainer here: this process ${why}`);
    expect(errorOf(table({ parentPid }), 'HOLDFAST_LIFE').code).toBe('InvalidConfig');
  });

  it.each<[string, Partial<ProcessTable> & { files?: Record<string, string> }]>([
    ['no /proc', { files: { '/proc/4711/stat': undefined as unknown as string } }],
    ['a boot id of another form', { files: { '/proc/sys/kernel/random/boot_id': 'none' } }],
    ['a namespace of another form', { readLink: () => 'none' }],
    ['a line of another form', { files: { '/proc/4711/stat': '4711 (ps) S 1 2' } }],
  ])('%s is Unsupported, with what to do instead', (_, changes) => {
    const error = errorOf(table(changes));
    expect([error.code, error.exitCode]).toEqual(['Unsupported', 2]);
    expect(error.message).toContain('--life: "parent" needs /proc of Linux to identify process 4711: ');
    expect(error.context['advice']).toEqual([
      'give the trainer a new name at each start, and pass it as --life ID',
    ]);
  });
});
