/** Spans and metrics of saves and restores for OpenTelemetry. */

export * from '@holdfast/opentelemetry';
