/** Types and schema of the stored records, generated from `proto/`. */

export * from './generated.ts';
