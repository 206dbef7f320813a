/**
 * The true state of one version, read with the provider's own SDK and independent of any reported
 * outcome.
 */

import type { TestBucket } from '../servers/test-bucket.ts';
import type { AmbiguousCloud } from './ambiguity-clouds.ts';
import type { SeenBucket } from './run-view.ts';

/** The store and bucket in which runs are played in parallel. */
export interface Place {
  readonly cloud: AmbiguousCloud;
  readonly bucket: TestBucket;
  readonly view: SeenBucket;
}

export interface Truth {
  /** The epoch of the attempt that owns the run, or 0 if none does. */
  readonly epoch: number;
  /** The epoch of the attempt that committed the version, if any. */
  readonly committedEpoch: number | undefined;
  /** Receipts of the version that are there. */
  readonly delivered: Receipts;
}

/** The key of each writer's receipt, by `epoch/writer`. */
export type Receipts = ReadonlyMap<string, string>;

export const NOTHING: Truth = { epoch: 0, committedEpoch: undefined, delivered: new Map() };

/** `name` is the name of the run. */
export async function truthOf({ view }: Place, name: string, version: bigint): Promise<Truth> {
  const keys = await view.list(`${name}/`);
  const newest = keys.filter((key) => key.startsWith(`${name}/catalog/`)).at(-1);
  const state = newest === undefined ? {} : await readState(view, newest);
  const listed = state.checkpoints?.find(({ id }) => (id.version ?? '0') === `${version}`);
  const receipt = new RegExp(`/version_${version}/\\d+\\.(\\d+)/receipts/(\\d+)\\.\\d+\\.json$`);
  const delivered = keys.flatMap((key): [string, string][] => {
    const [, epoch, writer] = receipt.exec(key) ?? [];
    return epoch === undefined ? [] : [[`${epoch}/${writer}`, key]];
  });
  return {
    epoch: Number(state.epoch ?? 0),
    committedEpoch: listed && Number(listed.id.epoch),
    delivered: new Map(delivered),
  };
}

interface State {
  readonly epoch?: number;
  readonly checkpoints?: readonly { readonly id: { readonly version?: string; readonly epoch?: number } }[];
}

async function readState(view: Place['view'], key: string): Promise<State> {
  const bytes = await view.read(key);
  return (JSON.parse(new TextDecoder().decode(bytes)) as { state: State }).state;
}
