/** Findings of fsck for people: grouped by their meaning, each group with advice. Pure. */

import type { FsckProblem, FsckProblemKind, FsckResult, RebuildResult } from '@holdfast/core/contract';
import { formatBytes, formatPlural, formatVersions, printable, shellQuote } from './format.ts';
import type { Style, StyleName } from './style.ts';

const SHOWN_MAX = 20;

interface Facts {
  readonly title: string;
  readonly color: StyleName;
  /** Advice, with the run's URI quoted for a shell. */
  readonly advice: (uri: string) => string;
}

function quarantineAdvice(uri: string): string {
  return `\`holdfast verify ${uri} --version V --quarantine\` takes such a version out of use; restore another one`;
}

const KINDS: Readonly<Record<FsckProblemKind, Facts>> = {
  missing: { title: 'missing', color: 'red', advice: quarantineAdvice },
  damaged: { title: 'damaged', color: 'red', advice: quarantineAdvice },
  garbage: {
    title: 'garbage',
    color: 'yellow',
    advice: (uri) => `\`holdfast gc ${uri}\` deletes it`,
  },
  skipped: {
    title: 'held',
    color: 'yellow',
    advice: (uri) =>
      `a manifest that a rebuild skipped may refer to it; \`holdfast fsck ${uri} --release KEY\` stops keeping it`,
  },
  unfinished: {
    title: 'unfinished',
    color: 'yellow',
    advice: (uri) =>
      `its writers may still be saving; \`holdfast commit ${uri} --version V\` finishes it once all have delivered`,
  },
  'abandoned-upload': {
    title: 'abandoned upload',
    color: 'yellow',
    advice: (uri) => `\`holdfast gc ${uri}\` stops it`,
  },
  foreign: {
    title: 'foreign',
    color: 'yellow',
    advice: () => 'not a Holdfast object; ignored. Keep other files elsewhere',
  },
};

export interface FsckTextOptions {
  readonly uri: string;
  readonly style: Style;
}

export function fsckText(result: FsckResult, options: FsckTextOptions): string {
  const groups = Map.groupBy(result.problems, ({ kind }) => kind);
  return [
    ...[...groups].flatMap(([kind, problems]) => groupLines(kind, problems, options)),
    ...result.skippedManifests.map(
      (key) =>
        `${options.style('yellow', 'skipped')}  ${printable(key)}   not in the catalog; its objects are kept`,
    ),
    summaryLine(result, options),
  ].join('\n');
}

function groupLines(
  kind: FsckProblemKind,
  problems: readonly FsckProblem[],
  { uri, style }: FsckTextOptions,
): string[] {
  const { title, color, advice } = KINDS[kind];
  const shown = problems.slice(0, SHOWN_MAX);
  const more = problems.length - shown.length;
  return [
    ...shown.map((problem) => `${style(color, title)}  ${problemText(problem)}`),
    ...(more > 0 ? [`${style(color, title)}  ${more} more of this kind; --json lists all`] : []),
    `  ${advice(shellQuote(uri))}`,
  ];
}

function problemText({ id, key, objectCount, sizeBytes, message }: FsckProblem): string {
  const first = printable(key);
  const which = objectCount > 1 ? [`${formatPlural(objectCount, 'object')} from ${first} on`] : [first];
  const parts = [
    ...(id === null ? [] : [`version ${id.version}`]),
    ...(objectCount === 1 && message.includes(key) ? [] : which),
    ...(sizeBytes > 0 ? [formatBytes(sizeBytes)] : []),
    printable(message),
  ];
  return parts.join('   ');
}

function summaryLine(
  { checkpointCount, objectCount, totalBytes, isSound }: FsckResult,
  { style }: FsckTextOptions,
): string {
  const verdict = isSound ? style('green', 'sound') : style('red', 'not sound');
  const looked = [
    formatPlural(checkpointCount, 'version'),
    formatPlural(objectCount, 'object'),
    formatBytes(totalBytes),
  ];
  return [verdict, ...looked].join('   ');
}

export function rebuildText(
  { runId, formerRunId, checkpoints, skipped }: RebuildResult,
  { uri, style }: FsckTextOptions,
): string {
  const which = formatVersions(checkpoints.map(({ version }) => version).reverse());
  const rebuilt = `${formatPlural(checkpoints.length, 'version')}${which === '' ? '' : `: ${which}`}`;
  const before = formerRunId === null ? '' : `, before ${printable(formerRunId)}`;
  const hold = `gc deletes nothing that it may refer to; \`holdfast fsck ${shellQuote(uri)} --release KEY\` stops keeping it`;
  return [
    ...skipped.flatMap(({ key, reason, isHeld }) => {
      const line = `${style(isHeld ? 'red' : 'yellow', isHeld ? 'skipped' : 'skipped')}  ${printable(key)}   ${printable(reason)}`;
      return isHeld ? [line, `  ${hold}`] : [line];
    }),
    `${style('green', 'rebuilt')}  ${rebuilt}   run ${printable(runId)}${before}`,
    `  no version is verified yet: \`holdfast verify ${shellQuote(uri)}\` reads every byte of the latest`,
  ].join('\n');
}
