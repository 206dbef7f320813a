/**
 * The environment by which Google's tools find their files. Always that of the process, as for the
 * library that finds all other credentials.
 */
export function environmentOfTools(): Readonly<Record<string, string | undefined>> {
  return process.env;
}
