/** Text about an ElasticDL checkpoint, for people. Pure. */

import type { WriterState } from '@holdfast/core/contract';
import type { Form } from '@holdfast/elasticdl';
import { consistencyText } from '../consistency-text.ts';
import { formatBytes, formatCount, formatPlural, printable } from '../format.ts';
import type { Style } from '../style.ts';
import { type Column, tableLines } from '../table.ts';
import { type ModelSummary, type ShardSummary, sum, type TableSummary } from './model-summary.ts';

const WRITTEN_BY: Readonly<Record<Form, string>> = {
  S0: 'ElasticDL from March 2019 on',
  S1: 'ElasticDL from August 2019 on',
  S2: 'ElasticDL of October 2019',
  S2a: 'a branch of ElasticDL in October 2019',
  S3: 'ElasticDL from 24 October 2019 on',
  S4: 'ElasticDL from 25 October 2019 on, in the form of its design document',
  S5: 'ElasticDL from 14 February 2020 on, with types as TensorFlow numbers them',
  S6: 'ElasticDL of 20 February 2020',
  S7: 'ElasticDL from 21 February 2020 on',
};

const LABEL_WIDTH = 10;

export interface Inspected {
  /** Its path or URI. */
  readonly where: string;
  /** From the name or the catalog; `null`: unknown. */
  readonly version: bigint | null;
  /** Reports of a run's writers about the moment of their bytes. Empty for files outside a run. */
  readonly writers: readonly WriterState[];
  readonly shards: readonly ShardSummary[];
  /** `null`: the shards do not form one checkpoint. */
  readonly model: ModelSummary | null;
  /** Signs that a file may be truncated, as text. */
  readonly suspicions: readonly string[];
}

/** Yields lines, because a shard may have millions of variables. */
export function* inspectedText(inspected: Inspected, style: Style): Iterable<string> {
  const { shards, model } = inspected;
  const rows = factsOf(inspected);
  const width = Math.max(LABEL_WIDTH, ...rows.map(([name]) => name.length));
  for (const [name, text] of rows) yield `${style('dim', name.padEnd(width))} ${text}`;
  if (shards.length > 1) yield* titled(shardsTable(shards), style);
  if (model !== null && model.tables.length > 0) yield* titled(tablesTable(model.tables), style);
  if (model !== null && model.variables.length > 0) yield* titled(variablesTable(model.variables), style);
}

function* titled(lines: Iterable<string>, style: Style): Iterable<string> {
  yield '';
  let isTitle = true;
  for (const line of lines) {
    yield isTitle ? style('bold', line) : line;
    isTitle = false;
  }
}

function factsOf({
  where,
  version,
  writers,
  shards,
  model,
  suspicions,
}: Inspected): [name: string, text: string][] {
  const forms = [...new Set(shards.map(({ form }) => form))];
  const versions = [...new Set(shards.map((each) => each.version))];
  const [inFiles = 0, another] = versions;
  const isNamedElse = another === undefined && version !== null && BigInt(inFiles) !== version;
  const consistency = consistencyText({ writers });
  const size = formatBytes(sum(shards.map(({ sizeBytes }) => sizeBytes)));
  return [
    ['checkpoint', printable(where)],
    ['form', forms.map((form) => `${form}, ${WRITTEN_BY[form]}`).join('; ')],
    ['version', `${versions.join(', ')}${isNamedElse ? ` in the files, ${version} by the name` : ''}`],
    ...(consistency === null ? [] : [['consistency', consistency] as [string, string]]),
    ['size', `${size} in ${formatPlural(shards.length, 'file')}`],
    ...(model === null ? [] : [['holds', holdsText(model)] as [string, string]]),
    ...suspicions.map((reason): [string, string] => ['suspicious', printable(reason)]),
  ];
}

function holdsText({ variables, tables }: ModelSummary): string {
  const rowCount = sum(tables.map((table) => table.rowCount));
  const inTables = [formatPlural(tables.length, 'table'), formatPlural(rowCount, 'row')];
  return [formatPlural(variables.length, 'variable'), ...(tables.length > 0 ? inTables : [])].join(' · ');
}

const left = (title: string): Column => ({ title, align: 'left' });
const right = (title: string): Column => ({ title, align: 'right' });

function shardsTable(shards: readonly ShardSummary[]): Iterable<string> {
  return tableLines(
    [left('SHARD'), right('VERSION'), right('VARIABLES'), right('ROWS'), right('SIZE')],
    shards,
    (each) => [
      printable(each.name),
      String(each.version),
      formatCount(each.variableCount),
      formatCount(each.rowCount),
      formatBytes(each.sizeBytes),
    ],
  );
}

function tablesTable(tables: readonly TableSummary[]): Iterable<string> {
  return tableLines(
    [left('TABLE'), left('DTYPE'), right('DIM'), right('ROWS'), right('SIZE'), left('INITIALIZER')],
    tables,
    (each) => [
      printable(each.name),
      each.dtype,
      formatCount(each.dim),
      formatCount(each.rowCount),
      formatBytes(each.sizeBytes),
      printable(each.initializer),
    ],
  );
}

function variablesTable(variables: ModelSummary['variables']): Iterable<string> {
  return tableLines(
    [left('VARIABLE'), left('DTYPE'), left('SHAPE'), right('SIZE')],
    variables,
    ({ place }) => [
      printable(place.name),
      place.dtype,
      `[${place.shape.join(', ')}]`,
      formatBytes(place.content.lengthBytes),
    ],
  );
}
