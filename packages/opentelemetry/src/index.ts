export { type OpenTelemetryParts, openTelemetryMeter } from './meter.ts';
