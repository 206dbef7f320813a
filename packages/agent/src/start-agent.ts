import { type Logger, systemClock } from '@holdfast/core';
import { Agent, type Stopped } from './agent.ts';
import { Config } from './config.ts';
import { serverOf } from './server/server.ts';
import { listenAt } from './server/socket-file.ts';
import { Stage } from './staging/stage.ts';

/** How often idle readers are closed, and the idle agent ends. */
const LOOK_INTERVAL_MS = 5000;
const CLOSE_TIMEOUT_MS = 2000;

export interface AgentOptions {
  /** Path of the socket; its directory belongs to this user alone. */
  readonly socket: string;
  /** Staging directory. On tmpfs the agent reads at the speed of memory. */
  readonly stage: string;
  /** Path of the configuration; default: none. */
  readonly config?: string | undefined;
  /** Ends after this long without writers and readers, in milliseconds. Default: never. */
  readonly idleExitMs?: number | undefined;
  readonly programVersion: string;
  /** Credentials of the stores, as their SDKs name them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
}

export interface RunningAgent {
  /** Resolves when it has ended by itself: after a preemption, or because it was idle. */
  readonly ended: Promise<Stopped>;
  /**
   * Takes no more saves, waits at most `deadlineMs` for those under way, and ends. Sealed saves
   * that were not finished stay in the staging directory; the next agent continues with them. Saves
   * from memory without a name end with this agent, unless their trainer sends them again.
   */
  stop(deadlineMs: number): Promise<Stopped>;
}

/**
 * Starts serving. `AlreadyExists`: another agent serves the socket. `Denied`: the directory of the
 * socket or the staging directory is open to others. `InvalidConfig`: the configuration.
 */
export async function startAgent(options: AgentOptions): Promise<RunningAgent> {
  const { logger, env } = options;
  const config = await Config.load(options.config);
  const stage = await Stage.open(options.stage);
  const agent = new Agent(config, stage, { env, logger });
  const ended = Promise.withResolvers<Stopped>();
  const server = serverOf(agent, { version: options.programVersion, end: () => void end() });
  const serve = async () => {
    // Before any trainer can save: what was sealed earlier has lower versions.
    await agent.resume();
    return listenAt(server, options.socket, config.token !== undefined);
  };
  const release = await serve().catch(async (error: unknown) => {
    await agent.close();
    await stage.close();
    throw error;
  });
  const watching = new AbortController();
  let closing: Promise<Stopped> | undefined;
  const end = () => {
    closing ??= close();
    return closing;
  };
  async function close(): Promise<Stopped> {
    watching.abort();
    const stopped = await agent.close();
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeIdleConnections();
    await Promise.race([closed, systemClock.sleep(CLOSE_TIMEOUT_MS)]);
    server.closeAllConnections();
    await release();
    await stage.close();
    ended.resolve(stopped);
    return stopped;
  }
  void watch(agent, { signal: watching.signal, idleExitMs: options.idleExitMs, logger, end });
  return {
    ended: ended.promise,
    stop: async (deadlineMs) => {
      await agent.drain(systemClock.monotonicMs() + deadlineMs);
      return end();
    },
  };
}

async function watch(
  agent: Agent,
  {
    signal,
    idleExitMs = Number.POSITIVE_INFINITY,
    logger,
    end,
  }: {
    readonly signal: AbortSignal;
    readonly idleExitMs?: number | undefined;
    readonly logger: Logger;
    readonly end: () => Promise<unknown>;
  },
): Promise<void> {
  let busyAtMs = systemClock.monotonicMs();
  while (!signal.aborted) {
    await systemClock.sleep(Math.min(LOOK_INTERVAL_MS, idleExitMs), signal).catch(() => undefined);
    try {
      await agent.readers.closeIdle();
      await agent.keepStage();
      await agent.lookAtWriters();
    } catch (error) {
      // The saves under way are worth more than this look. The next one is soon.
      logger.log('warn', 'cannot look after idle readers and writers', { error: String(error) });
    }
    if (!agent.isIdle) busyAtMs = systemClock.monotonicMs();
    else if (systemClock.monotonicMs() - busyAtMs >= idleExitMs) await end();
  }
}
