/**
 * The environment by which AWS tools find their files. Always that of the process, as for the SDK
 * that finds all other credentials.
 */
export function environmentOfTools(): Readonly<Record<string, string | undefined>> {
  return process.env;
}
