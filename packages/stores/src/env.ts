/** Environment variables from which an adapter may fill gaps of the URI. */
export type StoreEnvironment = Readonly<Record<string, string | undefined>>;

/** Used if the caller passes no environment: `process.env`, as for all tools of the clouds. */
export function processEnvironment(): StoreEnvironment {
  return process.env;
}
