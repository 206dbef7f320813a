/** Plan of a collection, for people: on one screen, or version by version. Pure. */

import { checkpointName, type RetentionPlan, type RetentionVerdict } from '@holdfast/core/contract';
import { formatBytes, formatCount, formatVersions, printable } from '../format.ts';
import type { Style } from '../style.ts';
import { renderTable } from '../table.ts';

type Verdict = RetentionVerdict['verdict'];

const VERDICTS: readonly Verdict[] = ['keep', 'retire', 'wait', 'remove'];

/** The rules, the number of versions for each outcome, and the space that is freed. */
export function planText(plan: RetentionPlan, style: Style): string {
  const [titles, ...rows] = renderTable(
    [
      { title: 'PLAN', align: 'left' },
      { title: 'VERSIONS', align: 'right' },
      { title: 'STORED', align: 'right' },
      { title: 'WHICH', align: 'left' },
    ],
    VERDICTS.filter((verdict) => verdict === 'keep' || of(plan, verdict).length > 0).map((verdict) => {
      const which = of(plan, verdict);
      return [
        verdict,
        formatCount(which.length),
        formatBytes(storedBytes(which)),
        formatVersions(which.map(({ id, isLeftBehind }) => checkpointName(id, isLeftBehind)).reverse()),
      ];
    }),
  );
  return [rulesLine(plan), style('bold', titles as string), ...rows, ...consequences(plan)].join('\n');
}

/** Every version, newest first, with its outcome and the reason. */
export function explainText(plan: RetentionPlan, style: Style): string {
  const [titles, ...rows] = renderTable(
    [
      { title: 'VERSION', align: 'right' },
      { title: 'STORED', align: 'right' },
      { title: 'PLAN', align: 'left' },
      { title: 'WHY', align: 'left' },
    ],
    plan.verdicts.map((each) => [
      checkpointName(each.id, each.isLeftBehind),
      formatBytes(each.storedBytes),
      each.verdict,
      printable(each.reasons.join('; ')),
    ]),
  );
  return [rulesLine(plan), style('bold', titles as string), ...rows, ...consequences(plan)].join('\n');
}

const of = ({ verdicts }: RetentionPlan, verdict: Verdict): readonly RetentionVerdict[] =>
  verdicts.filter((each) => each.verdict === verdict);

const storedBytes = (verdicts: readonly RetentionVerdict[]): number =>
  verdicts.reduce((sum, each) => sum + each.storedBytes, 0);

function rulesLine({ rules }: RetentionPlan): string {
  return `rules: ${printable(rules)}`;
}

function consequences(plan: RetentionPlan): string[] {
  const removed = of(plan, 'remove');
  const retired = of(plan, 'retire');
  const isAtOnce = plan.policy?.graceMs === 0;
  // A retired version keeps the grace that it was retired with.
  const later = [...(isAtOnce ? [] : retired), ...of(plan, 'wait')];
  const gone = isAtOnce ? retired : [];
  const share = `${formatBytes(plan.droppedBytes)} of ${formatBytes(plan.totalBytes)}`;
  return [
    ...beyondRules(plan),
    ...(removed.length > 0 ? [`removed for good: ${formatBytes(storedBytes(removed))}`] : []),
    ...(gone.length > 0
      ? [`removed for good, without a grace period: ${formatBytes(storedBytes(gone))}`]
      : []),
    ...(later.length > 0
      ? [
          `removed after the grace period: ${formatBytes(storedBytes(later))}; until then \`holdfast undelete\` can undo it`,
        ]
      : []),
    ...(plan.needsForce ? [`this drops more than half of the run, ${share}: it needs --force`] : []),
    ...(removed.length + retired.length + later.length === 0
      ? ['nothing to retire or remove; objects that belong to no version are deleted nevertheless']
      : []),
  ];
}

/**
 * Why more versions stay than the rules require: one line for each reason, with the number of
 * versions.
 */
function beyondRules(plan: RetentionPlan): string[] {
  const beyond = of(plan, 'keep').filter((each) => each.isBeyondRules);
  const byReason = Map.groupBy(beyond.toReversed(), ({ reasons }) => reasons.join('; '));
  return [...byReason].map(([reason, each]) => {
    const names = each.map(({ id, isLeftBehind }) => checkpointName(id, isLeftBehind));
    const stay = names.length === 1 ? 'stays' : 'stay';
    return `beside the rules ${formatVersions(names)} ${stay}: ${printable(reason)}`;
  });
}
