/** What has become of one version, whatever anybody was told of it: read with the provider's own SDK. */

import type { TestBucket } from '../servers/test-bucket.ts';
import type { AmbiguousCloud } from './ambiguity-clouds.ts';
import type { SeenBucket } from './run-view.ts';

/** Where runs are played, side by side. */
export interface Place {
  readonly cloud: AmbiguousCloud;
  readonly bucket: TestBucket;
  readonly view: SeenBucket;
}

export interface Truth {
  /** Of the attempt that owns the run. 0: none does. */
  readonly epoch: number;
  /** Of the attempt that has committed the version, if one has. */
  readonly committedEpoch: number | undefined;
  /** `epoch/writer` of all that have delivered it. */
  readonly delivered: ReadonlySet<string>;
}

export const NOTHING: Truth = { epoch: 0, committedEpoch: undefined, delivered: new Set() };

/** `name`: of the run. */
export async function truthOf({ view }: Place, name: string, version: bigint): Promise<Truth> {
  const keys = await view.list(`${name}/`);
  const newest = keys.filter((key) => key.startsWith(`${name}/catalog/`)).at(-1);
  const state = newest === undefined ? {} : await readState(view, newest);
  const listed = state.checkpoints?.find(({ id }) => (id.version ?? '0') === `${version}`);
  const receipt = new RegExp(`/version_${version}/\\d+\\.(\\d+)/receipts/(\\d+)\\.\\d+\\.json$`);
  const delivered = keys.flatMap((key) => {
    const [, epoch, writer] = receipt.exec(key) ?? [];
    return epoch === undefined ? [] : [`${epoch}/${writer}`];
  });
  return {
    epoch: Number(state.epoch ?? 0),
    committedEpoch: listed && Number(listed.id.epoch),
    delivered: new Set(delivered),
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
