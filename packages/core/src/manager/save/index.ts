/** One writer saves: files, uploads, sessions. */

export { OutputFiles } from './output-files.ts';
export { save } from './save.ts';
export { SaveSession } from './session.ts';
export { WriterRegistry } from './writers.ts';
