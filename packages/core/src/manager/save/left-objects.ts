/**
 * Objects that this and other processes of a writer have finished for a checkpoint that is still
 * open. A writer that was killed after some of its files need not send those again.
 *
 * Such an object is used only if the store keeps a checksum of it. The transfer compares this
 * checksum with what the source holds now.
 */

import { throwIfAborted, toCheckpointError } from '../../contract/errors.ts';
import { checkpointPrefix, parsePayloadKey } from '../../format/index.ts';
import type { FinishedObject } from '../../transfer/index.ts';
import { mayGoOnWith, type UploadOwner, withDeadline } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/** For a smaller object, asking takes as long as sending it. */
const SIZE_BYTES_MIN = 1024 * 1024;
/**
 * Objects checked for one name and size, those of the newest processes first. Further objects are
 * most likely the same file, sent again.
 */
const OBJECTS_PER_FILE_MAX = 4;

interface Left {
  readonly key: string;
  readonly sizeBytes: number;
  readonly incarnation: number;
}

export class LeftObjects {
  readonly #run: RunContext;
  readonly #owner: UploadOwner;
  readonly #sizeBytesMin: number;
  #byName: Promise<Map<string, Left[]>> | undefined;

  constructor(run: RunContext, owner: UploadOwner) {
    this.#run = run;
    this.#owner = owner;
    this.#sizeBytesMin = Math.min(SIZE_BYTES_MIN, run.settings.partSizeBytesMin);
  }

  /**
   * Objects of later incarnations come first. Empty if the store does not answer. Cost: one listing
   * for all files, and one request for each object with this name and size, up to
   * `OBJECTS_PER_FILE_MAX`.
   */
  async find(name: string, sizeBytes: number, signal: AbortSignal): Promise<FinishedObject[]> {
    if (sizeBytes < this.#sizeBytesMin) return [];
    const { clock, settings, logger } = this.#run;
    const what = `looking for objects that an earlier process sent of "${name}"`;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
    try {
      return await withDeadline(bounds, (until) => this.#find(name, sizeBytes, until));
    } catch (error) {
      throwIfAborted(signal);
      logger.log('info', `${what} failed: ${toCheckpointError(error).message}`);
      return [];
    }
  }

  async #find(name: string, sizeBytes: number, signal: AbortSignal): Promise<FinishedObject[]> {
    this.#byName ??= this.#list(signal);
    const left = (await this.#byName).get(name)?.filter((each) => each.sizeBytes === sizeBytes) ?? [];
    const found: FinishedObject[] = [];
    for (const { key } of left.slice(0, OBJECTS_PER_FILE_MAX)) {
      const { crc32c } = await this.#run.records.head(key, { signal });
      if (crc32c === undefined) break; // this store keeps no checksum
      found.push({ key, crc32c });
    }
    return found;
  }

  async #list(signal: AbortSignal): Promise<Map<string, Left[]>> {
    const { id, writer } = this.#owner;
    const byName = new Map<string, Left[]>();
    for await (const { objects } of this.#run.records.list(`${checkpointPrefix(id)}${writer}.`, {
      signal,
    })) {
      for (const { key, sizeBytes } of objects) {
        const payload = parsePayloadKey(key);
        if (payload?.writer !== writer || !mayGoOnWith(this.#owner, payload.incarnation)) continue;
        const ofName = byName.get(payload.name) ?? [];
        ofName.push({ key, sizeBytes, incarnation: payload.incarnation });
        byName.set(payload.name, ofName);
      }
    }
    for (const ofName of byName.values()) ofName.sort((a, b) => b.incarnation - a.incarnation);
    return byName;
  }
}
