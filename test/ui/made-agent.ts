/** The answer of an agent to `GET /v1/status`, with a save in each state that its page shows. */

import type { StatusView } from '@holdfast/agent';

type Writer = StatusView['writers'][number];
type Save = Writer['saves'][number];

const MIB = 1 << 20;

function save(version: string, more: Partial<Save>): Save {
  return {
    saveId: `save-${version}-${more.state}`,
    writerId: 'writer',
    version,
    state: 'uploading',
    durability: 'staged',
    sizeBytes: 512 * MIB,
    doneBytes: 128 * MIB,
    referencedBytes: 0,
    id: null,
    missingWriters: [],
    error: null,
    ...more,
  };
}

function writer(index: number, more: Partial<Writer>): Writer {
  return {
    writerId: `writer-${index}`,
    uri: 's3://bucket/team/recommender',
    attempt: 'job-17.0',
    index,
    count: 4,
    pid: 4711 + index,
    isConnected: true,
    saves: [],
    ...more,
  };
}

const denied = {
  code: 'Denied',
  message: 's3://bucket/team/other refuses to create an object (AccessDenied)',
  details: {},
  retryable: false,
} as const;

export const AGENT_STATUS: StatusView = {
  version: '1.2.3',
  pid: 4700,
  uptimeMs: 3 * 3_600_000,
  isStopping: true,
  writers: [
    writer(0, { saves: [save('1300', {}), save('1200', { state: 'committed', durability: 'committed' })] }),
    writer(1, {
      saves: [save('1300', { state: 'delivered', doneBytes: 512 * MIB, missingWriters: [2, 3] })],
    }),
    writer(2, { isConnected: false, saves: [save('1300', { state: 'failed', error: denied })] }),
  ],
  newest: [
    { uri: 's3://bucket/team/recommender', version: '1200' },
    { uri: 's3://bucket/team/other', version: null },
  ],
  memory: { totalBytes: 256 * MIB, usedBytes: 64 * MIB },
  saveBytesPerSecondMax: 50 * MIB,
  stage: { directory: '/dev/shm/holdfast-1000', kind: 'tmpfs', reason: 'memory', freeBytes: 900 * MIB },
};
