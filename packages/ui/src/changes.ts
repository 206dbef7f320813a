/**
 * Changes from the page: pin, annotate, retire by the rules, roll back. Each is planned first. The
 * page shows the plan, and sends its digest back to carry it out.
 */

import { createHash } from 'node:crypto';
import { CheckpointError, type RunManager } from '@holdfast/core/contract';
import type { ChangePlan, ChangeRequest, ChangeResult, VersionRow } from './api.ts';
import type { RunReader } from './run-reader.ts';

const NAMES_SHOWN = 20;

interface Planned {
  readonly lines: readonly string[];
  /** Carries it out. Resolves to what was done, in words. */
  readonly run: (manager: RunManager, signal: AbortSignal) => Promise<string>;
}

/**
 * Without `confirm`: returns the plan. With the digest of the present plan: carries it out.
 * `Conflict`: the run has changed since the plan. `InvalidArgument`: a field is missing or not
 * accepted.
 */
export async function change(
  reader: RunReader,
  request: ChangeRequest,
  signal: AbortSignal,
): Promise<ChangePlan | ChangeResult> {
  reader.forget();
  const { seq } = await reader.view();
  const planned = await PLANS[actionOf(request)](reader, request);
  const digest = createHash('sha256')
    .update(JSON.stringify([seq, request.action, planned.lines]))
    .digest('hex');
  if (request.confirm === undefined) return { lines: planned.lines, digest };
  if (request.confirm !== digest)
    throw new CheckpointError('Conflict', 'the run has changed since this plan was made; make it again');
  const done = await planned.run(reader.manager, signal);
  reader.forget();
  return { done };
}

type Action = ChangeRequest['action'];

const PLANS: Readonly<Record<Action, (reader: RunReader, request: ChangeRequest) => Promise<Planned>>> = {
  pin: async (reader, request) => {
    const row = await rowOf(reader, request);
    const label = textOf(request, 'reason');
    return {
      lines: [
        `Pin version ${row.name}: no rule retires it until it is unpinned.`,
        `Label and reason: ${label}`,
      ],
      run: async ({ admin }, signal) => {
        await admin.pin(referenceOf(row), label, { signal });
        return `Version ${row.name} is pinned.`;
      },
    };
  },
  annotate: async (reader, request) => {
    const row = await rowOf(reader, request);
    const [name, text, reason] = [
      textOf(request, 'name'),
      textOf(request, 'text'),
      textOf(request, 'reason'),
    ];
    return {
      lines: [`Record in the metadata of version ${row.name}:`, `${name} = ${text}`, `reason = ${reason}`],
      run: async ({ admin }, signal) => {
        await admin.annotate(referenceOf(row), { metadata: { [name]: text, reason }, signal });
        return `Version ${row.name} is annotated.`;
      },
    };
  },
  retire: async (reader) => {
    const { retention } = await reader.view();
    if ('code' in retention)
      throw new CheckpointError(retention.code as CheckpointError['code'], retention.message);
    const rows = await reader.rows();
    if (retention.needsForce)
      throw new CheckpointError(
        'Conflict',
        'the rules drop more than half of the run: use holdfast gc --force',
      );
    return {
      lines: [
        `Apply the rules: ${retention.rules}`,
        `Retire ${namesText(rows.filter(({ verdict }) => verdict === 'retire'))}.`,
        `Remove for good, because their grace is over: ${namesText(rows.filter(({ verdict }) => verdict === 'remove'))}.`,
        'Objects that belong to no version are deleted too.',
      ],
      run: async ({ admin }, signal) => {
        const { retired, removed } = await admin.collect({ signal });
        return `${retired.length} retired, ${removed.length} removed.`;
      },
    };
  },
  rollback: async (reader, request) => {
    const row = await rowOf(reader, request);
    const reason = textOf(request, 'reason');
    const rows = await reader.rows();
    const left = rows.filter((each) => !each.isLeftBehind && BigInt(each.version) > BigInt(row.version));
    return {
      lines: [
        `Make version ${row.name} the latest again, in a new lineage.`,
        `Left behind: ${namesText(left)}. They stay until retention removes them.`,
        'Running writers are fenced; start them again.',
        `Reason: ${reason}`,
      ],
      run: async ({ admin }, signal) => {
        const { lineage } = await admin.rollback({ to: referenceOf(row), reason, signal });
        return `Version ${row.version} is the latest, in lineage ${lineage}.`;
      },
    };
  },
};

function actionOf({ action }: ChangeRequest): Action {
  if (Object.hasOwn(PLANS, action)) return action;
  throw new CheckpointError('InvalidArgument', `action: one of ${Object.keys(PLANS).join(', ')} is accepted`);
}

function referenceOf({ version, lineage }: VersionRow) {
  return { version: BigInt(version), lineage };
}

async function rowOf(reader: RunReader, { version, lineage }: ChangeRequest): Promise<VersionRow> {
  const row = (await reader.rows()).find((each) => each.version === version && each.lineage === lineage);
  if (row !== undefined) return row;
  throw new CheckpointError('NotFound', 'there is no such version, or it was removed');
}

function textOf(request: ChangeRequest, field: 'reason' | 'name' | 'text'): string {
  const text = request[field];
  if (typeof text === 'string' && text.trim() !== '') return text;
  throw new CheckpointError('InvalidArgument', `${field}: a text is required`);
}

function namesText(rows: readonly VersionRow[]): string {
  if (rows.length === 0) return 'no version';
  const rest = rows.length - NAMES_SHOWN;
  return `${rows
    .slice(0, NAMES_SHOWN)
    .map(({ name }) => name)
    .join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
