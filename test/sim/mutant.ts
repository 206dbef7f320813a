/** A mistake that is planted into the engine. */

export interface Change {
  /** Path below packages/core/src. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

export interface EngineMutant extends Change {
  /** The mistake shows only in small dimensions: it is planted together with `SMALL`. */
  readonly isSmall?: true;
  /** The seed that found it before. The hunt begins there, or at 1. */
  readonly seed?: number;
}

/** Number of places that `find` has in `source`. A mutant is sound if there is exactly one. */
export function placesOf({ find }: Change, source: string): number {
  return source.split(find).length - 1;
}
