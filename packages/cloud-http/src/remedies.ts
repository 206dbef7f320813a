import { HttpRefusal } from './errors.ts';

/** Tries to correct the cause of a refusal. False: nothing could be changed. */
export type Remedy = () => boolean | Promise<boolean>;

/**
 * Sends a request again, once, after a refusal for its region, time, version or credentials, if the
 * cause was corrected. Such a refusal had no effect. Another request may have made the correction.
 */
export class Remedies {
  /** Corrections so far. */
  #count = 0;

  /** `remedyFor`: undefined for a refusal that must be reported. */
  async run<T>(send: () => Promise<T>, remedyFor: (refusal: HttpRefusal) => Remedy | undefined): Promise<T> {
    const sentWith = this.#count;
    try {
      return await send();
    } catch (error) {
      const remedy = error instanceof HttpRefusal ? remedyFor(error) : undefined;
      if (remedy === undefined || !(await this.#correct(sentWith, remedy))) throw error;
      return send();
    }
  }

  /** False: nothing has changed since the request was sent. */
  async #correct(sentWith: number, remedy: Remedy): Promise<boolean> {
    if (this.#count === sentWith && (await remedy())) this.#count += 1;
    return this.#count !== sentWith;
  }
}

/** Providers tolerate a smaller clock difference: it cannot be why a signature was rejected. */
const CLOCK_SKEW_MS_MIN = 60_000;

/** The store's clock, as far as a refusal has told it. At first this machine's. */
export class StoreClock {
  /** Positive: the store is ahead of this machine. */
  offsetMs = 0;

  now(): Date {
    return new Date(Date.now() + this.offsetMs);
  }

  /** False: the refusal tells no time, or none that would explain it. */
  adjust({ date }: HttpRefusal): boolean {
    const offsetMs = Date.parse(date ?? '') - Date.now();
    if (Number.isNaN(offsetMs) || Math.abs(offsetMs - this.offsetMs) < CLOCK_SKEW_MS_MIN) return false;
    this.offsetMs = offsetMs;
    return true;
  }
}
