/** Differences between two versions, for people. Pure. */

import {
  type CheckpointId,
  type DiffResult,
  type FileDiff,
  referenceText,
  type TensorChange,
  type TensorDiff,
  type TensorShape,
} from '@holdfast/core/contract';
import { formatBytes, formatCount, formatPlural, printable } from './format.ts';
import type { Style, StyleName } from './style.ts';

/** Limit for one file. A model has thousands of tensors, and a training step changes nearly all. */
const TENSORS_SHOWN_MAX = 20;
const COLORS = { added: 'green', removed: 'red', changed: 'yellow', reshaped: 'yellow' } as const;
const CHANGE_WIDTH = 'reshaped'.length;

export function diffText({ before, after, files }: DiffResult, style: Style): string {
  const differing = files.filter(({ change }) => change !== 'same');
  const same = files.filter(({ change }) => change === 'same');
  const sameBytes = same.reduce((sum, { afterBytes }) => sum + (afterBytes ?? 0), 0);
  const lines = differing.flatMap((file) => [
    `${changeText(file.change, style)}  ${printable(file.name)}   ${sizeText(file)}`,
    ...tensorLines(file, style).map((line) => `  ${line}`),
  ]);
  return [
    style('bold', `version ${idText(before, after)} → ${idText(after, before)}`),
    ...lines,
    same.length === 0
      ? 'no file is unchanged'
      : `${differing.length === 0 ? 'all the same' : 'the same'}: ${formatPlural(same.length, 'file')}, ${formatBytes(sameBytes)}`,
  ].join('\n');
}

/** Includes the lineage only if both have the same version. */
function idText({ version, lineage }: CheckpointId, other: CheckpointId): string {
  return referenceText(
    version === other.version && lineage !== other.lineage ? { version, lineage } : { version },
  );
}

function changeText(change: string, style: Style): string {
  const color: StyleName | undefined = COLORS[change as keyof typeof COLORS];
  const padded = change.padEnd(CHANGE_WIDTH);
  return color === undefined ? padded : style(color, padded);
}

function sizeText({ beforeBytes, afterBytes }: FileDiff): string {
  if (beforeBytes === null || afterBytes === null) return formatBytes(beforeBytes ?? afterBytes ?? 0);
  if (beforeBytes === afterBytes) return formatBytes(afterBytes);
  return `${formatBytes(beforeBytes)} → ${formatBytes(afterBytes)}`;
}

function tensorLines({ tensors, note }: FileDiff, style: Style): string[] {
  if (tensors === null) return note === '' ? [] : [`note: ${printable(note)}`];
  const told = tensors.filter(({ change }) => change !== 'same' && change !== 'unread');
  const shown = told.slice(0, TENSORS_SHOWN_MAX);
  const rest = told.length - shown.length;
  return [
    ...shown.map(
      (tensor) =>
        `${changeText(tensor.change, style)}  ${printable(tensor.name)}   ${printable(shapesText(tensor))}`,
    ),
    ...(rest > 0 ? [`… and ${formatCount(rest)} more; --json lists all`] : []),
    `tensors: ${countsText(tensors)}`,
  ];
}

function shapesText({ change, before, after }: TensorDiff): string {
  const [old, now] = [before && shapeText(before), after && shapeText(after)];
  return change === 'reshaped' ? `${old} → ${now}` : (now ?? old ?? '');
}

function shapeText({ dtype, shape }: TensorShape): string {
  return `${dtype} [${shape.join(', ')}]`;
}

const IN_WORDS: readonly (readonly [TensorChange, string])[] = [
  ['added', 'added'],
  ['removed', 'removed'],
  ['reshaped', 'reshaped'],
  ['changed', 'changed'],
  ['same', 'the same'],
  ['unread', 'of the same type and shape (--tensors compares their bytes)'],
];

function countsText(tensors: readonly TensorDiff[]): string {
  const counts = IN_WORDS.map(([change, words]) => {
    const count = tensors.filter((each) => each.change === change).length;
    return count === 0 ? undefined : `${formatCount(count)} ${words}`;
  });
  return counts.filter((each) => each !== undefined).join(', ') || 'none';
}
