/**
 * Changes from the page: pin, annotate, retire by the rules, roll back. Each is planned first. The
 * page shows the plan, and sends its digest back to carry it out.
 */

import { createHash } from 'node:crypto';
import { CheckpointError, type CollectResult, type RunManager } from '@holdfast/core/contract';
import type { ChangePlan, ChangeRequest, ChangeResult, Problem, RetentionView, VersionRow } from './api.ts';
import type { RunReader } from './run-reader.ts';

const NAMES_SHOWN = 20;
/** Name of the reason in the metadata of an annotated version. */
const REASON = 'reason';

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
  await reader.renew();
  const look = await reader.viewAndRows();
  const { seq, problem } = look.view;
  if (problem !== null) throw errorOf(problem);
  const planned = PLANS[actionOf(request)](look, request);
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

/** All plans are made from one look at the run. */
type Look = Awaited<ReturnType<RunReader['viewAndRows']>>;

const PLANS: Readonly<Record<Action, (look: Look, request: ChangeRequest) => Planned>> = {
  pin: ({ rows }, request) => {
    const row = rowOf(rows, request);
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
  annotate: ({ rows }, request) => {
    const row = rowOf(rows, request);
    const [name, text, reason] = [
      textOf(request, 'name'),
      textOf(request, 'text'),
      textOf(request, 'reason'),
    ];
    if (name === REASON)
      throw new CheckpointError(
        'InvalidArgument',
        `name: "${REASON}" is the name under which the reason of this change is recorded; choose another name`,
      );
    return {
      lines: [`Record in the metadata of version ${row.name}:`, `${name} = ${text}`, `${REASON} = ${reason}`],
      run: async ({ admin }, signal) => {
        await admin.annotate(referenceOf(row), { metadata: { [name]: text, [REASON]: reason }, signal });
        return `Version ${row.name} is annotated.`;
      },
    };
  },
  retire: ({ view: { retention }, rows }, request) => {
    if ('code' in retention) throw errorOf(retention);
    if (retention.needsForce)
      throw new CheckpointError(
        'Conflict',
        'the rules drop more than half of the run: use holdfast gc --force',
      );
    return retirePlan(retention, rows, textOf(request, 'reason'));
  },
  rollback: ({ rows }, request) => {
    const row = rowOf(rows, request);
    const reason = textOf(request, 'reason');
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

function retirePlan(retention: RetentionView, rows: readonly VersionRow[], reason: string): Planned {
  const [retire, remove] = (['retire', 'remove'] as const).map((verdict) =>
    rows.filter((row) => row.verdict === verdict),
  ) as [VersionRow[], VersionRow[]];
  const isAtOnce = retention.isWithoutGrace && retire.length > 0;
  return {
    lines: [
      `Apply the rules: ${retention.rules}`,
      `Retire ${namesText(retire)}.`,
      ...(isAtOnce ? ['They have no grace, so they are removed for good at once.'] : []),
      `Remove for good, because their grace is over: ${namesText(remove)}.`,
      'Objects that belong to no version are deleted too.',
      `Reason: ${reason}`,
    ],
    run: async ({ admin }, signal) => {
      const result = await admin.collect({ reason, signal });
      return collectedText(result, retire, isAtOnce ? [...retire, ...remove] : remove);
    },
  };
}

/** Names the versions if they are others than planned. */
function collectedText(
  { retired, removed }: CollectResult,
  retire: readonly VersionRow[],
  remove: readonly VersionRow[],
): string {
  const text = `${retired.length} retired, ${removed.length} removed.`;
  const sorted = (versions: readonly unknown[]) => versions.map(String).sort().join(', ');
  const versionsOf = (rows: readonly VersionRow[]) => rows.map(({ version }) => version);
  const isAsPlanned =
    sorted(retired) === sorted(versionsOf(retire)) && sorted(removed) === sorted(versionsOf(remove));
  if (isAsPlanned) return text;
  const names = (versions: readonly bigint[]) => sorted(versions) || 'no version';
  return `${text} The plan had others: the run has changed meanwhile, or readers hold leases. Retired: ${names(retired)}. Removed: ${names(removed)}.`;
}

function actionOf({ action }: ChangeRequest): Action {
  if (Object.hasOwn(PLANS, action)) return action;
  throw new CheckpointError('InvalidArgument', `action: one of ${Object.keys(PLANS).join(', ')} is accepted`);
}

function referenceOf({ version, lineage }: VersionRow) {
  return { version: BigInt(version), lineage };
}

function errorOf({ code, message }: Problem): CheckpointError {
  return new CheckpointError(code as CheckpointError['code'], message);
}

function rowOf(rows: readonly VersionRow[], { version, lineage }: ChangeRequest): VersionRow {
  const row = rows.find((each) => each.version === version && each.lineage === lineage);
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
