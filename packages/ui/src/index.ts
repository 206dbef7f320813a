export { isLoopback } from './guards.ts';
export { readPage } from './page-text.ts';
export { reportOf } from './report.ts';
export { type RunningUi, startUi, type UiOptions } from './server.ts';
