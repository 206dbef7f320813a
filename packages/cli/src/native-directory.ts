/**
 * The directory of this package's native code. The build of the packed command puts the code
 * elsewhere, so it replaces this file.
 */
export function nativeDirectory(): URL {
  return new URL('../native/', import.meta.url);
}
