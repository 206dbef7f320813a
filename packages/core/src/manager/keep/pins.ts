/** Decisions by people about single checkpoints: pin, unpin, and undo a retirement. */

import type { CheckpointReference, WaitOptions } from '../../contract/checkpoint-manager.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { referenceText } from '../../contract/reference.ts';
import { type CatalogCheckpoint, type Reference, type State, toReference } from '../../format/index.ts';
import { wasRemoved, whyNotLive } from '../../plan/select.ts';
import { allReferredTo } from '../../plan/state.ts';
import type { Pin } from '../../plan/transaction.ts';
import type { Head } from '../catalog/index.ts';
import { askRun, decide, type RunContext, withDoneInErrors } from '../run/index.ts';

const LABEL_LENGTH_MAX = 200;
const LABEL = new RegExp(`^[^\\p{C}\\p{Zl}\\p{Zp}]{1,${LABEL_LENGTH_MAX}}$`, 'u');

export async function pin(
  run: RunContext,
  { checkpoint, label }: { checkpoint: CheckpointReference; label: string },
  { signal }: WaitOptions,
): Promise<void> {
  const wanted = toReference(checkpoint);
  checkLabel(label);
  await decide(run, ({ state }) => pinning(state, 'pin', requireLive(state, wanted), label), {
    what: `the pin of version ${referenceText(wanted)}`,
    signal,
  });
}

export async function unpin(
  run: RunContext,
  { checkpoint, label }: { checkpoint: CheckpointReference; label: string | undefined },
  { signal }: WaitOptions,
): Promise<readonly string[]> {
  const wanted = toReference(checkpoint);
  if (label !== undefined) checkLabel(label);
  const { answer } = await askRun(run, ({ state }) => requireThere(state, wanted), signal);
  const { pins } = answer;
  if (label !== undefined && !pins.includes(label)) {
    const has = pins.length === 0 ? 'none' : pins.map((each) => `"${each}"`).join(', ');
    throw notFound(wanted, `has no pin "${label}"; it has ${has}`);
  }
  const labels = label === undefined ? pins : [label];
  await withDoneInErrors(async (done) => {
    for (const label of labels) {
      const plan = (head: Head) => pinning(head.state, 'unpin', requireThere(head.state, wanted), label);
      const what = `removing the pin "${label}" from version ${referenceText(wanted)}`;
      const about = { leftCount: labels.length - done.length - 1 };
      await decide(run, plan, { what, about, signal });
      done.push(`the pin "${label}" was removed from version ${referenceText(wanted)}`);
    }
  });
  return labels;
}

export async function undelete(
  run: RunContext,
  checkpoint: CheckpointReference,
  { signal }: WaitOptions,
): Promise<void> {
  const wanted = toReference(checkpoint);
  await decide(
    run,
    ({ state }) => {
      const { lineage, epoch } = state;
      const { id } = requireRetiring(state, wanted);
      return { kind: 'unretire', lineage, epoch, checkpoints: [id], reason: 'undeleted' };
    },
    { what: `undeleting version ${referenceText(wanted)}`, signal },
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

function requireThere(state: State, wanted: Reference): CatalogCheckpoint {
  const [found] = allReferredTo(state, wanted);
  if (found) return found;
  throw notFound(wanted, wasRemoved(state, wanted) ? 'was removed' : 'is not in the catalog');
}

function requireLive(state: State, wanted: Reference): CatalogCheckpoint {
  const found = allReferredTo(state, wanted).find((each) => each.state === 'LIVE');
  if (found) return found;
  throw notFound(wanted, whyNotLive(requireThere(state, wanted)));
}

function requireRetiring(state: State, wanted: Reference): CatalogCheckpoint {
  const found = allReferredTo(state, wanted).find((each) => each.state === 'RETIRING');
  if (found) return found;
  const is = requireThere(state, wanted).state.toLowerCase();
  throw new CheckpointError('Conflict', `version ${referenceText(wanted)} is not retired: it is ${is}`, {
    context: { version: wanted.version },
  });
}

function notFound(wanted: Reference, what: string): CheckpointError {
  return new CheckpointError('NotFound', `version ${referenceText(wanted)} ${what}`, {
    context: { version: wanted.version },
  });
}
