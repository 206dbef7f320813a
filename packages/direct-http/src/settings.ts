import type { LookupFunction } from 'node:net';

/** Node's timers hold 31 bits. */
export const TIMER_MS_MAX = 2_147_483_647;

export interface DirectHttpOptions {
  /** Per origin. Further requests wait. Default 64. */
  connectionsMax?: number | undefined;
  /** From the name's look-up to the end of the TLS handshake. Default 10,000. */
  connectTimeoutMs?: number | undefined;
  /** Limit of a pending request without a byte in either direction. Default 30,000. */
  idleTimeoutMs?: number | undefined;
  /**
   * How long an unused connection is kept if the server states no time. Otherwise 1 s less than
   * stated, at most 60 s. Default 4,000.
   */
  keepAliveMs?: number | undefined;
  tls?:
    | {
        /**
         * PEM certificates to trust instead of Node's. With an unreadable one, no server is
         * trusted.
         */
        ca?: string | readonly string[] | undefined;
      }
    | undefined;
  /** Instead of `dns.lookup`; called as `net.connect` calls it. */
  lookup?: LookupFunction | undefined;
}

/** The numbers of `DirectHttpOptions`, with the defaults. */
export interface ClientSettings {
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly keepAliveMs: number;
}

/**
 * Throws `RangeError` for a limit of no connections or a timer that never fires: requests would
 * wait for ever.
 */
export function settingsOf(options: DirectHttpOptions): ClientSettings {
  const settings: ClientSettings = {
    connectionsMax: options.connectionsMax ?? 64,
    connectTimeoutMs: options.connectTimeoutMs ?? 10_000,
    idleTimeoutMs: options.idleTimeoutMs ?? 30_000,
    keepAliveMs: options.keepAliveMs ?? 4000,
  };
  for (const [name, value] of Object.entries(settings)) {
    if (!Number.isInteger(value) || value < 1 || value > TIMER_MS_MAX) {
      throw new RangeError(`${name} is ${value}; it must be an integer from 1 to ${TIMER_MS_MAX}`);
    }
  }
  return settings;
}
