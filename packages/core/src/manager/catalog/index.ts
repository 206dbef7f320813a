/** The catalog: the entries that say which checkpoints exist. */

export { Catalog, type ListedEntry, rejectionError } from './catalog.ts';
export { withDamagedPart } from './catalog-damage.ts';
export { DoubtfulNames } from './doubtful-names.ts';
export type { CatalogAnswer, Head } from './head.ts';
export type { AppendResult, SendMemory } from './sending.ts';
