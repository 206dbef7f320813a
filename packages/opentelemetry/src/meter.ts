/** A `Meter` of Holdfast on a tracer and a meter of OpenTelemetry. */

import { isCheckpointError, type MeasuredSpan, type MeasuredWork, type Meter } from '@holdfast/core/contract';
import type { OpenTelemetryMeter, OpenTelemetrySpan, OpenTelemetryTracer } from './api.ts';
import { attributesOf, type Known, storeOf } from './attributes.ts';
import { Instruments } from './instruments.ts';

/** `SpanStatusCode.ERROR` and `SpanKind.CLIENT` of OpenTelemetry; their numbers never change. */
const STATUS_ERROR = 2;
const KIND_CLIENT = 2;

export interface OpenTelemetryParts {
  /** From `trace.getTracer('holdfast')`. Absent: no spans. */
  readonly tracer?: OpenTelemetryTracer | undefined;
  /** From `metrics.getMeter('holdfast')`. Absent: no metrics. */
  readonly meter?: OpenTelemetryMeter | undefined;
}

/**
 * Give the result to `openCheckpointManager` as its option `meter`; several managers may share it.
 * Each `MeasuredWork` becomes a span `holdfast.WORK`, which belongs to the active span. A failed
 * one has `error.type`, the code of the error. Metrics have only attributes of few values: store,
 * direction and outcome. Nothing is sent from here: the SDK of the program does it.
 */
export function openTelemetryMeter({ tracer, meter }: OpenTelemetryParts): Meter {
  const instruments = meter && new Instruments(meter);
  return {
    measure<T>(
      work: MeasuredWork,
      known: Known & { readonly uri: string },
      run: (span: MeasuredSpan) => Promise<T>,
    ): Promise<T> {
      const { uri } = known;
      const measured = (span: OpenTelemetrySpan | undefined) =>
        new Measurement({ work, uri, span, instruments }).observe(known, run);
      if (!tracer) return measured(undefined);
      const isOfObject = work === 'upload' || work === 'download';
      const kind = isOfObject && storeOf(uri) !== 'file' ? KIND_CLIENT : 0;
      const attributes = attributesOf(known, uri);
      return tracer.startActiveSpan(`holdfast.${work}`, { kind, attributes }, measured);
    },
  };
}

interface MeasurementParts {
  readonly work: MeasuredWork;
  readonly uri: string;
  readonly span: OpenTelemetrySpan | undefined;
  readonly instruments: Instruments | undefined;
}

class Measurement {
  readonly #parts: MeasurementParts;
  readonly #startMs = performance.now();
  #sizeBytes = 0;
  #referencedBytes = 0;

  constructor(parts: MeasurementParts) {
    this.#parts = parts;
  }

  async observe<T>(known: Known, run: (span: MeasuredSpan) => Promise<T>): Promise<T> {
    this.#note(known);
    try {
      const result = await run({ set: (more) => this.#set(more) });
      this.#end('ok');
      return result;
    } catch (error) {
      this.#end(isCheckpointError(error) ? error.code : 'Unexpected');
      throw error;
    }
  }

  #set(more: Known): void {
    this.#note(more);
    this.#parts.span?.setAttributes(attributesOf(more, this.#parts.uri));
  }

  #note({ sizeBytes, referencedBytes }: Known): void {
    this.#sizeBytes = sizeBytes ?? this.#sizeBytes;
    this.#referencedBytes = referencedBytes ?? this.#referencedBytes;
  }

  #end(outcome: string): void {
    const { work, uri, span, instruments } = this.#parts;
    instruments?.ended({
      work,
      store: storeOf(uri),
      outcome,
      seconds: (performance.now() - this.#startMs) / 1000,
      movedBytes: this.#sizeBytes - this.#referencedBytes,
    });
    if (outcome !== 'ok') {
      span?.setAttributes({ 'error.type': outcome });
      span?.setStatus({ code: STATUS_ERROR });
    }
    span?.end();
  }
}
