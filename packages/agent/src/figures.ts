/** Counts for Prometheus, in its text format. */

import type { SaveJob, SaveState } from './saves/save-job.ts';

const SECONDS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000];

export interface Gauges {
  readonly writers: number;
  readonly memoryUsedBytes: number;
  readonly memoryTotalBytes: number;
  readonly stageFreeBytes: number;
  readonly savesUnderWay: number;
  readonly uptimeMs: number;
}

export class Figures {
  readonly #ended = new Map<SaveState, number>();
  readonly #startedMs = new WeakMap<SaveJob, number>();
  readonly #buckets = SECONDS.map(() => 0);
  #committedCount = 0;
  #committedSeconds = 0;
  #committedBytes = 0;
  #referencedBytes = 0;
  #lastCommitMs = 0;
  #servedBytes = 0;

  note(job: SaveJob): void {
    if (job.state === 'accepted') this.#startedMs.set(job, performance.now());
    if (!job.hasEnded) return;
    this.#ended.set(job.state, (this.#ended.get(job.state) ?? 0) + 1);
    if (job.state !== 'committed') return;
    const { sizeBytes, referencedBytes } = job.view();
    const seconds = (performance.now() - (this.#startedMs.get(job) ?? performance.now())) / 1000;
    this.#committedCount += 1;
    this.#committedSeconds += seconds;
    this.#committedBytes += sizeBytes;
    this.#referencedBytes += referencedBytes;
    this.#lastCommitMs = Date.now();
    for (const [index, limit] of SECONDS.entries())
      if (seconds <= limit) this.#buckets[index] = (this.#buckets[index] ?? 0) + 1;
  }

  /** Bytes of files that trainers have read. */
  served(sizeBytes: number): void {
    this.#servedBytes += sizeBytes;
  }

  text(gauges: Gauges): string {
    const lines: string[] = [];
    const add = (
      name: string,
      type: string,
      help: string,
      values: readonly (readonly [string, number])[],
    ) => {
      lines.push(`# HELP holdfast_${name} ${help}`, `# TYPE holdfast_${name} ${type}`);
      for (const [labels, value] of values) lines.push(`holdfast_${name}${labels} ${value}`);
    };
    const ended = [...this.#ended].map(([state, count]) => [`{outcome="${state}"}`, count] as const);
    add('saves_total', 'counter', 'Saves that ended, by outcome.', ended);
    add('saves_in_progress', 'gauge', 'Sealed saves that are not committed yet.', [
      ['', gauges.savesUnderWay],
    ]);
    add('save_bytes_total', 'counter', 'Bytes of committed saves.', [['', this.#committedBytes]]);
    const referenced = 'Bytes of committed saves that were stored before, and were not sent.';
    add('save_referenced_bytes_total', 'counter', referenced, [['', this.#referencedBytes]]);
    const name = 'save_duration_seconds';
    add(name, 'histogram', 'Time from the seal to the commit.', [
      ...SECONDS.map((limit, index) => [`_bucket{le="${limit}"}`, this.#buckets[index] ?? 0] as const),
      ['_bucket{le="+Inf"}', this.#committedCount],
      ['_sum', this.#committedSeconds],
      ['_count', this.#committedCount],
    ]);
    const last = 'Time of the last commit of this agent, in seconds since 1970; 0: none yet.';
    add('last_commit_timestamp_seconds', 'gauge', last, [['', this.#lastCommitMs / 1000]]);
    add('read_bytes_total', 'counter', 'Verified bytes that trainers have read.', [['', this.#servedBytes]]);
    add('agent_writers', 'gauge', 'Writers that this agent serves.', [['', gauges.writers]]);
    add('agent_memory_bytes', 'gauge', 'Memory of transfers.', [
      ['{kind="used"}', gauges.memoryUsedBytes],
      ['{kind="total"}', gauges.memoryTotalBytes],
    ]);
    add('agent_stage_free_bytes', 'gauge', 'Room in the staging directory.', [['', gauges.stageFreeBytes]]);
    add('agent_uptime_seconds', 'gauge', 'Time since the start.', [['', gauges.uptimeMs / 1000]]);
    return `${lines.join('\n')}\n`;
  }
}
