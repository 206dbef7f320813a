import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openTelemetryMeter } from './index.ts';

class Reader extends MetricReader {
  protected onForceFlush = () => Promise.resolve();
  protected onShutdown = () => Promise.resolve();
}

const exporter = new InMemorySpanExporter();
const tracers = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
const tracer = tracers.getTracer('holdfast');

beforeAll(() => context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
beforeEach(() => exporter.reset());
afterAll(() => context.disable());

function metrics() {
  const reader = new Reader();
  const meter = new MeterProvider({ readers: [reader] }).getMeter('holdfast');
  const text = async () =>
    new PrometheusSerializer('', false, undefined, true, true).serialize(
      (await reader.collect()).resourceMetrics,
    );
  return { meter, text };
}

async function inDirectory(work: (uri: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-otel-'));
  try {
    await work(pathToFileURL(join(directory, 'run')).href);
  } finally {
    await rm(directory, { recursive: true });
  }
}

test('a save and a restore are traces, and their metrics have the documented names', async () => {
  await inDirectory(async (uri) => {
    const { meter, text } = metrics();
    await using run = await openCheckpointManager(uri, { meter: openTelemetryMeter({ tracer, meter }) });
    await run.save({ version: 5, buffers: { 'a.bin': new Uint8Array(1000) } });
    await run.restore({ to: { 'a.bin': new Uint8Array(1000) } });
    const spans = exporter.getFinishedSpans();
    const idOf = (name: string) => spans.find((span) => span.name === name)?.spanContext().spanId;
    const tree = spans.map(({ name, parentSpanContext }) => [name, parentSpanContext?.spanId]);
    expect(tree).toEqual([
      ['holdfast.upload', idOf('holdfast.save')],
      ['holdfast.commit', idOf('holdfast.save')],
      ['holdfast.save', undefined],
      ['holdfast.download', idOf('holdfast.restore')],
      ['holdfast.restore', undefined],
    ]);
    expect(spans.map(({ attributes }) => attributes)).toMatchObject([
      { 'holdfast.file.name': 'a.bin', 'holdfast.size_bytes': 1000, 'holdfast.referenced_bytes': 0 },
      { 'holdfast.version': '5', 'holdfast.writer.index': 0, 'holdfast.writer.count': 1 },
      { 'holdfast.run.uri': uri, 'holdfast.version': '5', 'holdfast.file.count': 1 },
      { 'holdfast.file.name': 'a.bin' },
      { 'holdfast.version': '5' },
    ]);
    const shown = await text();
    for (const line of [
      'holdfast_save_duration_seconds_count{store="file",outcome="ok"} 1',
      'holdfast_commit_duration_seconds_count{store="file",outcome="ok"} 1',
      'holdfast_restore_duration_seconds_count{store="file",outcome="ok"} 1',
      'holdfast_transfer_bytes_total{store="file",direction="up"} 1000',
      'holdfast_transfer_bytes_total{store="file",direction="down"} 1000',
    ])
      expect(shown).toContain(line);
    expect(shown).toMatch(/holdfast_last_commit_timestamp_seconds\{store="file"\} \d{10}/);
    expect(shown).not.toContain('holdfast_fenced_total');
  });
});

test('an object of S3 has the attributes of the conventions', async () => {
  const meter = openTelemetryMeter({ tracer });
  const uri = 's3://bucket/team/run%20a?region=x';
  await meter.measure('upload', { uri, name: 'a' }, async (span) =>
    span.set({ key: 'data/a', sizeBytes: 3 }),
  );
  await meter.measure('download', { uri: 's3://bucket', name: 'a', key: 'data/a' }, async () => undefined);
  await meter.measure('download', { uri: 'gs://bucket/r', key: 'data/a' }, async () => undefined);
  const spans = exporter.getFinishedSpans();
  expect(spans.map(({ kind }) => kind)).toEqual([2, 2, 2]);
  expect(spans[0]?.attributes).toMatchObject({
    'aws.s3.bucket': 'bucket',
    'aws.s3.key': 'team/run a/data/a',
  });
  expect(spans[1]?.attributes).toMatchObject({ 'aws.s3.bucket': 'bucket', 'aws.s3.key': 'data/a' });
  expect(spans[2]?.attributes).toMatchObject({ 'holdfast.object.key': 'data/a' });
});

test('a failure has the code of its error, and a fenced save is counted once', async () => {
  const { meter, text } = metrics();
  const measured = openTelemetryMeter({ tracer, meter });
  const uri = 's3://bucket/run';
  const fenced = () => Promise.reject(new CheckpointError('Fenced', 'a newer attempt owns this run'));
  await expect(
    measured.measure('save', { uri }, () => measured.measure('commit', { uri }, fenced)),
  ).rejects.toMatchObject({ code: 'Fenced' });
  await expect(
    measured.measure('restore', { uri }, () => Promise.reject(new Error('a bug'))),
  ).rejects.toThrow('a bug');
  expect(
    exporter.getFinishedSpans().map(({ attributes, status }) => [attributes['error.type'], status]),
  ).toEqual([
    ['Fenced', { code: 2 }],
    ['Fenced', { code: 2 }],
    ['Unexpected', { code: 2 }],
  ]);
  const shown = await text();
  expect(shown).toContain('holdfast_fenced_total{store="s3"} 1');
  expect(shown).toContain('holdfast_save_duration_seconds_count{store="s3",outcome="Fenced"} 1');
});

test('without a tracer, metrics are counted; without a meter, spans are made', async () => {
  const { meter, text } = metrics();
  await openTelemetryMeter({ meter }).measure('stage', { uri: 'file:///run' }, async () => undefined);
  expect(exporter.getFinishedSpans()).toEqual([]);
  expect(await text()).toContain('holdfast_save_blocked_seconds_count{store="file",outcome="ok"} 1');
  await openTelemetryMeter({ tracer }).measure('stage', { uri: 'file:///run' }, async () => undefined);
  expect(exporter.getFinishedSpans().map(({ name }) => name)).toEqual(['holdfast.stage']);
});
