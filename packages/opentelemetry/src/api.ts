/**
 * The part of `@opentelemetry/api` that is used. A tracer and a meter of OpenTelemetry have it, so
 * this package needs no other one.
 */

export type Attributes = Record<string, string | number>;

export interface OpenTelemetrySpan {
  setAttributes(attributes: Attributes): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}

export interface OpenTelemetryTracer {
  startActiveSpan<T>(
    name: string,
    options: { kind?: number; attributes?: Attributes },
    run: (span: OpenTelemetrySpan) => T,
  ): T;
}

interface InstrumentOptions {
  description?: string;
  unit?: string;
  advice?: { explicitBucketBoundaries?: number[] };
}

export interface OpenTelemetryMeter {
  createHistogram(
    name: string,
    options?: InstrumentOptions,
  ): { record(value: number, attributes?: Attributes): void };
  createCounter(
    name: string,
    options?: InstrumentOptions,
  ): { add(value: number, attributes?: Attributes): void };
  createGauge(
    name: string,
    options?: InstrumentOptions,
  ): { record(value: number, attributes?: Attributes): void };
}
