/** Environment variables an adapter may fill gaps of the URI from. */
export type StoreEnvironment = Readonly<Record<string, string | undefined>>;

/** What is read where a caller passes nothing: as for every tool of the clouds. */
export function processEnvironment(): StoreEnvironment {
  return process.env;
}
