/**
 * The directory of this package's native code. The build of the packed command puts the code
 * elsewhere, so it replaces this file. If a user bundles the library, the code is not there, and
 * slower code computes the same.
 */
export function nativeDirectory(): URL {
  return new URL('../../native/', import.meta.url);
}
