/** What adapters and other packages build on: interfaces, errors, settings. */

// Must be first: if it throws, nothing else is evaluated.
import './runtime.ts';

export * from './at-a-time.ts';
export * from './checkpoint-manager.ts';
export * from './checks.ts';
export * from './components.ts';
export * from './crc32c-combine.ts';
export * from './dropped.ts';
export * from './errors.ts';
export * from './exporting.ts';
export * from './files.ts';
export * from './history.ts';
export * from './json.ts';
export * from './life.ts';
export * from './meter.ts';
export * from './object-key.ts';
export * from './object-store.ts';
export * from './overview.ts';
export * from './ranges.ts';
export * from './reference.ts';
export * from './repeat-delay.ts';
export * from './request-watch.ts';
export * from './retention.ts';
export * from './run-manager.ts';
export * from './settings.ts';
export * from './staging.ts';
export * from './throttle.ts';
export * from './transfer-memory.ts';
export * from './transfer-workers.ts';
export * from './unusable.ts';
export * from './upkeep.ts';
export * from './worker-calls.ts';
