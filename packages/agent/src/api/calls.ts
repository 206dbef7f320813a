/**
 * Every call of the agent: its path, what it takes and what it answers. The server and the OpenAPI
 * document follow this table.
 */

import type * as z from 'zod';
import * as shapes from './shapes.ts';

export interface CallShape {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Segments in braces are parameters. */
  readonly path: string;
  readonly summary: string;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Status of success. Default 200. */
  readonly status?: number;
  /** `text`, `bytes`, `lines`: not one JSON value. */
  readonly answer: z.ZodType | 'text' | 'bytes' | 'lines' | 'document';
}

export const CALLS = {
  health: {
    method: 'GET',
    path: '/healthz',
    summary: 'Tells whether the agent takes saves. 503 while it stops.',
    answer: shapes.health,
  },
  metrics: { method: 'GET', path: '/metrics', summary: 'Figures for Prometheus.', answer: 'text' },
  document: { method: 'GET', path: '/openapi.json', summary: 'This document.', answer: 'document' },
  status: {
    method: 'GET',
    path: '/v1/status',
    summary: 'The writers, their saves, and what is durable.',
    answer: shapes.status,
  },
  join: {
    method: 'POST',
    path: '/v1/writers',
    summary: 'Becomes a writer of a run. From now on no older attempt can commit.',
    body: shapes.joinRequest,
    status: 201,
    answer: shapes.joined,
  },
  events: {
    method: 'GET',
    path: '/v1/writers/{writerId}/events',
    summary: 'Stays open as long as the trainer lives, and tells each change of a save.',
    answer: 'lines',
  },
  writer: {
    method: 'GET',
    path: '/v1/writers/{writerId}',
    summary: 'A writer, with its saves in flight and those that ended last, newest first.',
    answer: shapes.writer,
  },
  leave: {
    method: 'DELETE',
    path: '/v1/writers/{writerId}',
    summary: 'Ends a writer. Its sealed saves continue; its other saves are dropped.',
    answer: shapes.nothing,
  },
  save: {
    method: 'POST',
    path: '/v1/writers/{writerId}/saves',
    summary: 'Opens the sources and saves them. Repeating it with the same id changes nothing.',
    body: shapes.saveRequest,
    status: 202,
    answer: shapes.save,
  },
  seal: {
    method: 'POST',
    path: '/v1/writers/{writerId}/saves/{saveId}/seal',
    summary: 'Adds files to an open save and lets it begin.',
    body: shapes.sealRequest,
    status: 202,
    answer: shapes.save,
  },
  saveState: {
    method: 'GET',
    path: '/v1/writers/{writerId}/saves/{saveId}',
    summary: 'The state of a save, on request not before it has reached one.',
    query: shapes.saveQuery,
    answer: shapes.save,
  },
  cancelSave: {
    method: 'DELETE',
    path: '/v1/writers/{writerId}/saves/{saveId}',
    summary: 'Stops a save, unless it was decided already.',
    answer: shapes.save,
  },
  latest: {
    method: 'GET',
    path: '/v1/latest',
    summary: 'What a restart should load.',
    query: shapes.runQuery,
    answer: shapes.summary,
  },
  versions: {
    method: 'GET',
    path: '/v1/versions',
    summary: 'The checkpoints of a run, newest first.',
    query: shapes.versionsQuery,
    answer: shapes.versions,
  },
  version: {
    method: 'GET',
    path: '/v1/versions/{version}',
    summary: 'A checkpoint with its files. The version may be "latest".',
    query: shapes.versionQuery,
    answer: shapes.details,
  },
  file: {
    method: 'GET',
    path: '/v1/files',
    summary: 'Bytes of a file, each verified before it is sent.',
    query: shapes.fileQuery,
    answer: 'bytes',
  },
  restore: {
    method: 'POST',
    path: '/v1/restores',
    summary: 'Restores a checkpoint to a directory.',
    body: shapes.restoreRequest,
    status: 202,
    answer: shapes.restore,
  },
  restoreState: {
    method: 'GET',
    path: '/v1/restores/{restoreId}',
    summary: 'The state of a restore, on request not before its end.',
    query: shapes.restoreQuery,
    answer: shapes.restore,
  },
  cancelRestore: {
    method: 'DELETE',
    path: '/v1/restores/{restoreId}',
    summary: 'Stops a restore.',
    answer: shapes.restore,
  },
  annotate: {
    method: 'POST',
    path: '/v1/annotations',
    summary: 'Adds metrics and metadata to a committed checkpoint.',
    body: shapes.annotateRequest,
    answer: shapes.nothing,
  },
  pin: {
    method: 'POST',
    path: '/v1/pins',
    summary: 'Keeps a checkpoint until it is unpinned.',
    body: shapes.pinRequest,
    answer: shapes.nothing,
  },
  unpin: {
    method: 'DELETE',
    path: '/v1/pins',
    summary: 'Removes a pin.',
    query: shapes.unpinQuery,
    answer: shapes.nothing,
  },
  elect: {
    method: 'POST',
    path: '/v1/elections',
    summary: 'Asks whether this trainer is elected to export the model, for a time. Never waits.',
    body: shapes.electionRequest,
    answer: shapes.election,
  },
  preempt: {
    method: 'POST',
    path: '/v1/preempt',
    summary: 'Takes no more saves, finishes what fits the deadline, and ends the agent.',
    body: shapes.preemptRequest,
    answer: shapes.preempted,
  },
} as const satisfies Record<string, CallShape>;

export type CallName = keyof typeof CALLS;
