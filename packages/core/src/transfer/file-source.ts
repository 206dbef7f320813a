import { crc32cCombine } from '../contract/crc32c-combine.ts';
import type { RandomSource } from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';
import { checkStoredFile, type FileRange, partCrc, rangeOf } from '../plan/ranges.ts';
import { cutsOf, firstDifferent, PartReadings, type Section, sectionsOf } from '../plan/readings.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import { OpenReads } from './open-reads.ts';
import { mismatch, readUncompared } from './read.ts';
import type { Transfer } from './transfer.ts';

/**
 * A stored file that is read at any position and verified afterwards. For each part that was
 * touched, the bytes that the caller has not read are read too, and the whole part is compared with
 * the record. No byte is read twice unless the caller does so. See `Checkpoint.openSource`.
 */
export class StoredFileSource implements RandomSource {
  readonly sizeBytes: number;
  readonly #file: StoredFile;
  readonly #reads: OpenReads;
  /** By part number. */
  readonly #parts = new Map<number, PartReadings>();

  /** `begin` is called once the record was found to be valid. */
  constructor(file: StoredFile, begin: () => Transfer) {
    checkStoredFile(file);
    const { name, sizeBytes } = file;
    this.#file = file;
    this.sizeBytes = sizeBytes;
    const transfer = begin();
    this.#reads = new OpenReads(transfer, { name, sizeBytes }, (startBytes, memory) =>
      readUncompared(transfer, file, startBytes, memory),
    );
  }

  readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    return this.#reads.readInto(offsetBytes, buffer, (startBytes, bytes) => this.#note(startBytes, bytes));
  }

  async assertUnchanged(): Promise<void> {
    const works = [...this.#parts].map(
      ([part, readings]) =>
        () =>
          this.#prove(part, readings),
    );
    await this.#reads.during(() => this.#reads.together(works, false));
  }

  close(): Promise<void> {
    return this.#reads.close();
  }

  #note(startBytes: number, bytes: Uint8Array): void {
    const { partSizeBytes } = this.#file;
    for (let done = 0; done < bytes.byteLength; ) {
      const start = startBytes + done;
      const part = Math.floor(start / partSizeBytes);
      const length = Math.min((part + 1) * partSizeBytes - start, bytes.byteLength - done);
      const crc32c = computeCrc32c(bytes.subarray(done, done + length));
      let readings = this.#parts.get(part);
      if (!readings) {
        readings = new PartReadings();
        this.#parts.set(part, readings);
      }
      readings.add({ startBytes: start, endBytes: start + length, crc32c });
      done += length;
    }
  }

  async #prove(part: number, readings: PartReadings): Promise<void> {
    const { addCount } = readings;
    const range = rangeOf(this.#file, part, 1);
    const endBytes = range.startBytes + range.lengthBytes;
    const repeated: { section: Section; crcAt: (cutBytes: number) => number }[] = [];
    let found = 0;
    for (const section of sectionsOf({ startBytes: range.startBytes, endBytes }, readings.inOrder())) {
      const [only, ...others] = section.readings;
      let crc = only?.crc32c;
      if (crc === undefined || others.length > 0) {
        const crcAt = await this.#readSection(section);
        if (others.length > 0) repeated.push({ section, crcAt });
        crc = crcAt(section.endBytes);
      }
      found = crc32cCombine(found, crc, section.endBytes - section.startBytes);
    }
    this.#compare(part, range, found);
    for (const { section, crcAt } of repeated) this.#compareReadings(section, crcAt);
    // Reads that were made meanwhile are not verified yet, so all readings of the part are kept.
    if (readings.addCount === addCount && this.#parts.get(part) === readings) this.#parts.delete(part);
  }

  /** Resolves to the checksums of the section's bytes up to each cut, including its two ends. */
  async #readSection(section: Section): Promise<(cutBytes: number) => number> {
    const { startBytes, endBytes } = section;
    const crcs = new Map([[startBytes, 0]]);
    const cuts = [...cutsOf(section), endBytes];
    let next = 0;
    let crc = 0;
    await this.#reads.readInOrder(section, (pieceStart, bytes) => {
      const pieceEnd = pieceStart + bytes.byteLength;
      for (let at = pieceStart; at < pieceEnd; ) {
        while ((cuts[next] as number) <= at) next += 1;
        const end = Math.min(cuts[next] as number, pieceEnd);
        crc = computeCrc32c(bytes.subarray(at - pieceStart, end - pieceStart), crc);
        crcs.set(end, crc);
        at = end;
      }
    });
    return (cutBytes) => crcs.get(cutBytes) as number;
  }

  #compare(part: number, { startBytes, lengthBytes }: FileRange, found: number): void {
    const expected = partCrc(this.#file, part);
    if (found !== expected) throw mismatch(this.#file, startBytes, lengthBytes, expected, found);
  }

  #compareReadings(section: Section, crcAt: (cutBytes: number) => number): void {
    const different = firstDifferent(section, crcAt);
    if (!different) return;
    const { startBytes, endBytes, crc32c } = different.reading;
    throw mismatch(this.#file, startBytes, endBytes - startBytes, different.expected, crc32c);
  }
}
