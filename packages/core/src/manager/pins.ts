/** What people decide of single checkpoints: keep this one, whatever the rules say; take that one back. */

import type { VersionInput, WaitOptions } from '../contract/checkpoint-manager.ts';
import { shown } from '../contract/checks.ts';
import { CheckpointError } from '../contract/errors.ts';
import { type CatalogCheckpoint, type State, toVersion } from '../format/index.ts';
import { allOfVersion } from '../plan/state.ts';
import type { Pin } from '../plan/transaction.ts';
import type { Catalog, Head } from './catalog.ts';
import { askRun, decide, tellingWhatStands } from './decide.ts';
import type { Engine } from './engine.ts';

const LABEL_LENGTH_MAX = 200;
const LABEL = new RegExp(`^[^\\p{C}\\p{Zl}\\p{Zp}]{1,${LABEL_LENGTH_MAX}}$`, 'u');

export async function pin(
  engine: Engine,
  catalog: Catalog,
  { version, label }: { version: VersionInput; label: string },
  { signal }: WaitOptions,
): Promise<void> {
  const wanted = toVersion(version);
  checkLabel(label);
  await decide(engine, catalog, ({ state }) => pinning(state, 'pin', requireLive(state, wanted), label), {
    what: `the pin of version ${wanted}`,
    signal,
  });
}

export async function unpin(
  engine: Engine,
  catalog: Catalog,
  { version, label }: { version: VersionInput; label: string | undefined },
  { signal }: WaitOptions,
): Promise<readonly string[]> {
  const wanted = toVersion(version);
  if (label !== undefined) checkLabel(label);
  const { answer } = await askRun(engine, catalog, ({ state }) => requireThere(state, wanted), signal);
  const { pins } = answer;
  if (label !== undefined && !pins.includes(label)) {
    const has = pins.length === 0 ? 'none' : pins.map((each) => `"${each}"`).join(', ');
    throw notFound(wanted, `has no pin "${label}"; it has ${has}`);
  }
  const labels = label === undefined ? pins : [label];
  await tellingWhatStands(async (done) => {
    for (const label of labels) {
      const plan = (head: Head) => pinning(head.state, 'unpin', requireThere(head.state, wanted), label);
      const what = `taking the pin "${label}" from version ${wanted}`;
      await decide(engine, catalog, plan, { what, signal });
      done.push(`the pin "${label}" was taken from version ${wanted}`);
    }
  });
  return labels;
}

export async function undelete(
  engine: Engine,
  catalog: Catalog,
  version: VersionInput,
  { signal }: WaitOptions,
): Promise<void> {
  const wanted = toVersion(version);
  await decide(
    engine,
    catalog,
    ({ state }) => {
      const { lineage, epoch } = state;
      const { id } = requireRetiring(state, wanted);
      return { kind: 'unretire', lineage, epoch, checkpoints: [id], reason: 'taken back' };
    },
    { what: `taking version ${wanted} back`, signal },
  );
}

function pinning(state: State, kind: Pin['kind'], { id }: CatalogCheckpoint, label: string): Pin {
  const { lineage, epoch } = state;
  return { kind, lineage, epoch, checkpoint: id, label, reason: label };
}

function checkLabel(label: string): void {
  if (typeof label === 'string' && LABEL.test(label) && label.trim() !== '') return;
  throw new CheckpointError(
    'InvalidArgument',
    `the label ${shown(label)} cannot be used: it takes 1 to ${LABEL_LENGTH_MAX} printable characters, not only spaces`,
  );
}

function requireThere(state: State, version: bigint): CatalogCheckpoint {
  const [found] = allOfVersion(state, version);
  if (found) return found;
  const wasRemoved = state.removedRing.some(({ id }) => id.version === version);
  throw notFound(version, wasRemoved ? 'was removed' : 'is not in the catalog');
}

function requireLive(state: State, version: bigint): CatalogCheckpoint {
  const found = allOfVersion(state, version).find((each) => each.state === 'LIVE');
  if (found) return found;
  const { state: is, reason } = requireThere(state, version);
  const what = is === 'RETIRING' ? 'is being retired: take it back first' : `is quarantined: ${reason}`;
  throw notFound(version, what);
}

function requireRetiring(state: State, version: bigint): CatalogCheckpoint {
  const found = allOfVersion(state, version).find((each) => each.state === 'RETIRING');
  if (found) return found;
  const is = requireThere(state, version).state.toLowerCase();
  throw new CheckpointError('Conflict', `version ${version} is not retired: it is ${is}`, {
    context: { version },
  });
}

function notFound(version: bigint, what: string): CheckpointError {
  return new CheckpointError('NotFound', `version ${version} ${what}`, { context: { version } });
}
