/** What each call does. The bodies and queries were checked. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { abortError, type CheckpointSummary, jsonReady, systemClock, toVersion } from '@holdfast/core';
import type * as z from 'zod';
import type { Agent } from '../agent.ts';
import type { CALLS, CallName } from '../api/calls.ts';
import { openApi } from '../api/open-api.ts';
import type * as shapes from '../api/shapes.ts';
import {
  BODY_BYTES_MAX,
  type ElectionRequest,
  FILES_MAX,
  type Join,
  numberOf,
  type RestoreRequest,
  type SaveRequest,
  type SealRequest,
  WAIT_MS_DEFAULT,
  WAIT_MS_MAX,
} from '../api/shapes.ts';
import { findCheckpoint } from '../reading/held-checkpoints.ts';
import { listRun } from '../reading/list-run.ts';
import type { SaveJob } from '../saves/save-job.ts';

export interface Asked {
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: unknown;
  readonly body: unknown;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Fires when the caller has gone. */
  readonly signal: AbortSignal;
}

/** The value to answer as JSON; `undefined`: the handler has answered itself. */
export type Handler = (agent: Agent, asked: Asked) => unknown;

/** Set by the program that runs the agent. */
export interface Program {
  readonly version: string;
  /** Ends the agent after a preemption. */
  readonly end: () => void;
}

export function handlersOf(program: Program): Readonly<Record<CallName, Handler>> {
  return {
    ...WRITER_CALLS,
    ...READ_CALLS,
    health: ({ isStopping }, { response }) => {
      if (isStopping) response.statusCode = 503;
      return { status: isStopping ? 'stopping' : 'ok', version: program.version, pid: process.pid };
    },
    document: () => openApi(program.version),
    metrics: async (agent, { response }) => {
      response.setHeader('content-type', 'text/plain; version=0.0.4; charset=utf-8');
      response.end(agent.figures.text(await gaugesOf(agent)));
    },
    status: async (agent) => ({
      version: program.version,
      pid: process.pid,
      uptimeMs: agent.uptimeMs,
      isStopping: agent.isStopping,
      writers: agent.writers.map((writer) => writer.view()),
      newest: agent.newest,
      memory: agent.memory,
      saveBytesPerSecondMax: agent.saveBytesPerSecondMax,
      stage: await agent.stage.view(),
    }),
    preempt: async (agent, { body }) => {
      const { deadlineMs } = body as z.infer<typeof shapes.preemptRequest>;
      const result = await agent.drain(systemClock.monotonicMs() + deadlineMs);
      setImmediate(program.end);
      return result;
    },
  };
}

type PartOfCalls = Partial<Record<keyof typeof CALLS, Handler>>;

const WRITER_CALLS = {
  join: async (agent, { body }) => {
    const join = body as Join;
    const writer = await agent.join(join);
    const { epoch, lineage, tookOver, runId, latest } = await writer.enter();
    return {
      writerId: writer.id,
      ...{ epoch, lineage, tookOver, runId },
      latest: latest && summaryOf(latest),
      stage: await agent.stage.view(writer.id),
      limits: { bodyBytesMax: BODY_BYTES_MAX, filesMax: FILES_MAX, waitMsMax: WAIT_MS_MAX },
    };
  },
  writer: (agent, { parameters }) => agent.writer(parameters.writerId ?? '').view(),
  leave: async (agent, { parameters }) => {
    await agent.writer(parameters.writerId ?? '').leave();
    return {};
  },
  events: (agent, asked) => tellEvents(agent, asked),
  save: async (agent, { parameters, body }) => {
    const writer = agent.writer(parameters.writerId ?? '');
    const request = body as SaveRequest;
    // A trainer that missed the answer repeats it. It must not hear that nothing was begun.
    if (!writer.hasSave(request.saveId)) agent.assertTakesSave(writer, BigInt(request.version));
    return (await writer.save(request)).view();
  },
  seal: async (agent, { parameters, body }) => {
    const job = jobOf(agent, parameters);
    await agent.writer(parameters.writerId ?? '').seal(job, body as SealRequest);
    return job.view();
  },
  saveState: async (agent, { parameters, query, signal }) => {
    const { wait, timeoutMs } = query as z.infer<typeof shapes.saveQuery>;
    const job = jobOf(agent, parameters);
    if (wait) await job.reached(wait, waitUntil(timeoutMs), AbortSignal.any([signal, agent.stopped]));
    return job.view();
  },
  cancelSave: async (agent, { parameters }) => {
    const job = jobOf(agent, parameters);
    await job.cancelByCaller();
    return job.view();
  },
} satisfies PartOfCalls;

const READ_CALLS = {
  latest: async (agent, { query }) => {
    const { uri } = query as z.infer<typeof shapes.runQuery>;
    return agent.readers.use(uri, async (manager) => {
      const { summary } = await findCheckpoint(manager, { uri, version: 'latest', lineage: undefined });
      return summaryOf(summary as CheckpointSummary);
    });
  },
  versions: async (agent, { query, signal }) => {
    const { uri, limit } = query as z.infer<typeof shapes.versionsQuery>;
    const options = { limit: numberOf(limit), signal };
    const versions = await agent.readers.use(uri, (manager) => listRun(manager, uri, options));
    return { versions: versions.map(summaryOf) };
  },
  version: async (agent, { parameters, query }) => {
    const { lineage, ...which } = query as z.infer<typeof shapes.versionQuery>;
    const version = parameters.version ?? '';
    const wanted = { ...which, version, lineage: numberOf(lineage) };
    return agent.readers.describe(wanted, async (found) => summaryOf(await found.details()));
  },
  file: (agent, asked) => sendFile(agent, asked),
  restore: async (agent, { body }) => (await agent.startRestore(body as RestoreRequest)).view(),
  restoreState: async (agent, { parameters, query, signal }) => {
    const { wait, timeoutMs } = query as z.infer<typeof shapes.restoreQuery>;
    const job = agent.restore(parameters.restoreId ?? '');
    if (wait) await job.waitUntil(waitUntil(timeoutMs), AbortSignal.any([signal, agent.stopped]));
    return job.view();
  },
  cancelRestore: async (agent, { parameters }) => {
    const job = agent.restore(parameters.restoreId ?? '');
    await job.cancel();
    return job.view();
  },
  annotate: async (agent, { body }) => {
    const { version, metrics, metadata, ...run } = body as z.infer<typeof shapes.annotateRequest>;
    await agent.readers.useJoined(run, (manager) =>
      manager.admin.annotate(toVersion(BigInt(version)), { metrics, metadata }),
    );
    return {};
  },
  pin: async (agent, { body }) => {
    const { version, name, ...run } = body as z.infer<typeof shapes.pinRequest>;
    await agent.readers.useJoined(run, (manager) => manager.admin.pin(toVersion(BigInt(version)), name));
    return {};
  },
  unpin: async (agent, { query }) => {
    const { version, name, ...run } = query as z.infer<typeof shapes.unpinQuery>;
    await agent.readers.useJoined(run, (manager) => manager.admin.unpin(toVersion(BigInt(version)), name));
    return {};
  },
  elect: (agent, { body, signal }) => agent.elections.request(body as ElectionRequest, signal),
} satisfies PartOfCalls;

/** Lines that a reader does not take are dropped beyond this. */
const EVENT_BYTES_MAX = 64 * 1024;

function tellEvents(agent: Agent, { parameters, response }: Asked): void {
  const writer = agent.writer(parameters.writerId ?? '');
  response.writeHead(200, { 'content-type': 'application/x-ndjson' });
  const tell = (event: object) => {
    if (response.writableLength < EVENT_BYTES_MAX) response.write(`${JSON.stringify(event)}\n`);
  };
  tell({ type: 'hello' });
  const stop = writer.listen((job) => tell({ type: 'save', ...job.view() }));
  const end = () => response.end();
  agent.stopped.addEventListener('abort', end, { once: true });
  response.once('close', () => {
    agent.stopped.removeEventListener('abort', end);
    stop();
  });
}

async function sendFile(agent: Agent, { query, response, signal }: Asked): Promise<void> {
  const { lineage, offset, length, ...which } = query as z.infer<typeof shapes.fileQuery>;
  const wanted = {
    ...{ ...which, lineage: numberOf(lineage) },
    ...{ offset: Number(offset ?? 0), length: numberOf(length) },
  };
  await agent.files.read(wanted, async ({ sizeBytes, id, manifestKey, chunks, cut }) => {
    const stop = AbortSignal.any([signal, cut]);
    const begin = () =>
      response.writeHead(200, {
        'content-type': 'application/octet-stream',
        'content-length': sizeBytes,
        // By these, a reader whose answer is cut asks for the rest of the same checkpoint.
        'holdfast-version': String(id.version),
        'holdfast-lineage': String(id.lineage),
        'holdfast-manifest-key': manifestKey,
      });
    for await (const chunk of chunks()) {
      // An error before the first chunk is answered as an error. A later one cuts the connection,
      // and the caller sees fewer bytes than were announced.
      if (!response.headersSent) begin();
      agent.figures.served(chunk.byteLength);
      await sent(response, chunk, stop);
    }
    if (!response.headersSent) begin();
    response.end();
  });
}

/** A reader that takes nothing for so long is cut off: it holds memory that others wait for. */
const STANDSTILL_MS = 60_000;

/** Resolves when the system has the bytes: their memory is used again. */
function sent(response: ServerResponse, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(standing);
      reject(abortError(signal));
    };
    const standing = setTimeout(() => reject(new Error('the reader takes nothing')), STANDSTILL_MS);
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    response.write(bytes, (error) => {
      clearTimeout(standing);
      signal.removeEventListener('abort', stop);
      if (error) reject(error);
      else resolve();
    });
  });
}

async function gaugesOf(agent: Agent) {
  const { memory, uptimeMs, writers } = agent;
  const { freeBytes } = await agent.stage.view();
  return {
    writers: writers.length,
    memoryUsedBytes: memory.usedBytes,
    memoryTotalBytes: memory.totalBytes,
    stageFreeBytes: freeBytes,
    savesUnderWay: writers.flatMap(({ saves }) => saves).filter(({ isUnderWay }) => isUnderWay).length,
    uptimeMs,
  };
}

function jobOf(agent: Agent, { writerId = '', saveId = '' }: Asked['parameters']): SaveJob {
  return agent.writer(writerId).job(saveId);
}

function summaryOf<T extends CheckpointSummary>(summary: T): T {
  return jsonReady({ ...summary });
}

function waitUntil(timeoutMs: string | undefined): number {
  return systemClock.monotonicMs() + Math.min(Number(timeoutMs ?? WAIT_MS_DEFAULT), WAIT_MS_MAX);
}
