/**
 * For the tests of this folder: an agent in this process, and runs in memory.
 */

import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningAgent, startAgent } from '@holdfast/agent';
import { crc32c } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { registerStore } from '@holdfast/stores';
import { type FaultPlan, FaultyStore } from '@holdfast/testkit';
import { AgentClient, hex } from './agent-client.ts';

const buckets = new Map<string, MemoryBucket>();
/** Faults of the stores that are opened from now on, by run. */
export const plans = new Map<string, FaultPlan>();
/** Every store that was opened, by run. */
export const stores = new Map<string, FaultyStore[]>();

registerStore('shelf', {
  form: 'shelf://NAME',
  open: async (uri) => {
    const name = String(uri);
    const bucket = buckets.get(name) ?? new MemoryBucket({ crc32c });
    buckets.set(name, bucket);
    const store = new FaultyStore(new MemoryStore(bucket), plans.get(name));
    stores.set(name, [...(stores.get(name) ?? []), store]);
    return store;
  },
});

export function newRun(): string {
  return `shelf://${hex()}`;
}

export class TestAgent extends AgentClient implements AsyncDisposable {
  readonly directory: string;
  readonly stage: string;
  readonly log: { level: string; message: string; details: Record<string, unknown> | undefined }[] = [];
  running: RunningAgent | undefined;

  constructor(directory = mkdtempSync(join(tmpdir(), 'holdfast-agent-'))) {
    super(join(directory, 'run', 'agent.sock'));
    this.directory = directory;
    this.stage = join(directory, 'stage');
  }

  static async start(config?: Record<string, unknown>): Promise<TestAgent> {
    const agent = new TestAgent();
    await agent.start(config);
    return agent;
  }

  /** Again on the same directories, if it was stopped. */
  async start(config?: Record<string, unknown>, options: { idleExitMs?: number } = {}): Promise<void> {
    const path = join(this.directory, 'config.json');
    if (config) writeFileSync(path, JSON.stringify(config));
    this.running = await startAgent({
      ...options,
      ...{ socket: this.socket, stage: this.stage, config: config && path },
      ...{ programVersion: '1.2.3', env: {} },
      logger: { log: (level, message, details) => void this.log.push({ level, message, details }) },
    });
  }

  async stop(deadlineMs = 0) {
    const stopped = await this.running?.stop(deadlineMs);
    this.running = undefined;
    return stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}
