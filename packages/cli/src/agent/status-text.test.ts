import type { StatusView, WriterView } from '@holdfast/agent';
import { expect, test } from 'vitest';
import { statusText } from './status-text.ts';

type SaveView = WriterView['saves'][number];

const SAVE: SaveView = {
  ...{ saveId: 's', writerId: 'w', version: '2', state: 'uploading', durability: 'staged' },
  ...{
    sizeBytes: 4 << 20,
    doneBytes: 1 << 20,
    referencedBytes: 0,
    id: null,
    missingWriters: [],
    error: null,
  },
};
const WRITER: WriterView = {
  ...{ writerId: 'w', uri: 'prod', attempt: 'a', index: 0, count: 2, pid: 77, isConnected: true, saves: [] },
};
const STATUS: StatusView = {
  ...{ version: '1.2.3', pid: 5, uptimeMs: 250_000, isStopping: false, writers: [], newest: [] },
  memory: { totalBytes: 256 << 20, usedBytes: 8 << 20 },
  saveBytesPerSecondMax: null,
  stage: { directory: '/dev/shm/x', kind: 'tmpfs', reason: 'memory', freeBytes: 3 * 2 ** 30 },
};
const HEAD = `agent 1.2.3   process 5   up 4 min 10 s
stage /dev/shm/x   tmpfs, 3.0 GiB free
memory for transfers   8.0 of 256 MiB in use
`;

const textOf = (more: Partial<StatusView>) => statusText({ ...STATUS, ...more }, (_, text) => text);

test('nothing to do', () => {
  expect(textOf({})).toBe(`${HEAD}no writers`);
  expect(textOf({ isStopping: true })).toContain('up 4 min 10 s   stopping\n');
  const none = { ...STATUS.stage, kind: 'none' as const, reason: 'it is a link', freeBytes: 0 };
  expect(textOf({ stage: none })).toContain('\nstage /dev/shm/x   none: it is a link\n');
  expect(textOf({ saveBytesPerSecondMax: 50 << 20 })).toContain('\nlimit of all saves     50.0 MiB/s\n');
});

test('saves in progress, else the last that ended, each with what is in its way', () => {
  const failed = { code: 'Denied', message: 'no', details: {}, retryable: false } as const;
  const writers: WriterView[] = [
    {
      ...WRITER,
      saves: [
        { ...SAVE, version: '3', state: 'open', durability: 'none', doneBytes: 0 },
        { ...SAVE, state: 'delivered', doneBytes: 4 << 20, missingWriters: [1] },
        { ...SAVE, version: '1', state: 'committed', durability: 'committed' },
      ],
    },
    {
      ...{ ...WRITER, index: 1, pid: 78, isConnected: false },
      saves: [
        { ...SAVE, version: '1', state: 'failed', durability: 'none', error: failed },
        { ...SAVE, version: '0', state: 'committed', durability: 'committed' },
      ],
    },
    { ...WRITER, uri: 's3://bucket/new', count: 1, pid: 79 },
    {
      ...{ ...WRITER, uri: 'other', count: 1, pid: 80 },
      saves: [{ ...SAVE, state: 'committed', durability: 'committed' }],
    },
  ];
  const newest = [{ uri: 'prod', version: '1' }];
  expect(textOf({ writers, newest })).toBe(`${HEAD}
RUN               WRITER   PROCESS    VERSION   STATE                         DURABILITY   BYTES
prod              0 of 2   77               3   open                          none         0 of 4.0 MiB
prod              0 of 2   77               2   delivered, without writer 1   staged       4.0 of 4.0 MiB
prod              1 of 2   78, gone         1   failed                        none         1.0 of 4.0 MiB
s3://bucket/new   0 of 1   79                   no save yet
other             0 of 1   80               2   committed                     committed    4.0 MiB
writer 1, version 1: no (Denied)

committed   prod   version 1`);
});
