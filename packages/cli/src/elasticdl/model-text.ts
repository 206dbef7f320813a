/** What a checkpoint of ElasticDL holds, for people. Pure. */

import type { WriterState } from '@holdfast/core/contract';
import type { Form } from '@holdfast/elasticdl';
import { consistencyText } from '../consistency-text.ts';
import { formatBytes, formatCount, formatPlural, printable } from '../format.ts';
import type { Style } from '../style.ts';
import { type Column, renderTable } from '../table.ts';
import {
  type ModelSummary,
  type ShardSummary,
  sum,
  type TableSummary,
  type VariableSummary,
} from './model-summary.ts';

const WRITTEN_BY: Readonly<Record<Form, string>> = {
  S0: 'ElasticDL from March 2019 on',
  S1: 'ElasticDL from August 2019 on',
  S2: 'ElasticDL of October 2019',
  S2a: 'a branch of ElasticDL in October 2019',
  S3: 'ElasticDL from 24 October 2019 on',
  S4: 'ElasticDL from 25 October 2019 on: the form of its design document',
  S5: 'ElasticDL from 14 February 2020 on, with types as TensorFlow numbers them',
  S6: 'ElasticDL of 20 February 2020',
  S7: 'ElasticDL from 21 February 2020 on',
};

const LABEL_WIDTH = 10;

export interface Inspected {
  /** Where it was found. */
  readonly where: string;
  /** By the name or the catalog; `null`: neither tells. */
  readonly version: bigint | null;
  /** Of a run: what they said of the moment of their bytes. Elsewhere empty. */
  readonly writers: readonly WriterState[];
  readonly shards: readonly ShardSummary[];
  /** `null`: the shards are no one checkpoint. */
  readonly model: ModelSummary | null;
}

export function inspectedText(inspected: Inspected, style: Style): string {
  const { shards, model } = inspected;
  const rows = factsOf(inspected);
  const width = Math.max(LABEL_WIDTH, ...rows.map(([name]) => name.length));
  const facts = rows.map(([name, text]) => `${style('dim', name.padEnd(width))} ${text}`);
  const tables = [
    ...(shards.length > 1 ? [shardsTable(shards)] : []),
    ...(model !== null && model.tables.length > 0 ? [tablesTable(model.tables)] : []),
    ...(model !== null && model.variables.length > 0 ? [variablesTable(model.variables)] : []),
  ];
  const titled = tables.map(([titles = '', ...rows]) => ['', style('bold', titles), ...rows].join('\n'));
  return [...facts, ...titled].join('\n');
}

function factsOf({ where, version, writers, shards, model }: Inspected): [name: string, text: string][] {
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
  ];
}

function holdsText({ variables, tables }: ModelSummary): string {
  const rowCount = sum(tables.map((table) => table.rowCount));
  const inTables = [formatPlural(tables.length, 'table'), formatPlural(rowCount, 'row')];
  return [formatPlural(variables.length, 'variable'), ...(tables.length > 0 ? inTables : [])].join(' · ');
}

const left = (title: string): Column => ({ title, align: 'left' });
const right = (title: string): Column => ({ title, align: 'right' });

function shardsTable(shards: readonly ShardSummary[]): string[] {
  return renderTable(
    [left('SHARD'), right('VERSION'), right('VARIABLES'), right('ROWS'), right('SIZE')],
    shards.map((each) => [
      printable(each.name),
      String(each.version),
      formatCount(each.variableCount),
      formatCount(each.rowCount),
      formatBytes(each.sizeBytes),
    ]),
  );
}

function tablesTable(tables: readonly TableSummary[]): string[] {
  return renderTable(
    [left('TABLE'), left('DTYPE'), right('DIM'), right('ROWS'), right('SIZE'), left('INITIALIZER')],
    tables.map((each) => [
      printable(each.name),
      each.dtype,
      formatCount(each.dim),
      formatCount(each.rowCount),
      formatBytes(each.sizeBytes),
      printable(each.initializer),
    ]),
  );
}

function variablesTable(variables: readonly VariableSummary[]): string[] {
  return renderTable(
    [left('VARIABLE'), left('DTYPE'), left('SHAPE'), right('SIZE')],
    variables.map((each) => [
      printable(each.name),
      each.dtype,
      `[${each.shape.join(', ')}]`,
      formatBytes(each.sizeBytes),
    ]),
  );
}
