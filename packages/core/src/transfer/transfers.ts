import pLimit from 'p-limit';
import { CheckpointError, silentMeter } from '../contract/index.ts';
import { planStream } from '../plan/parts.ts';
import type { Transfers, VerifyReport } from './api.ts';
import { Deadlines } from './deadlines.ts';
import { nowhere } from './destination.ts';
import { StoredFileSource } from './file-source.ts';
import { openFileStream } from './file-stream.ts';
import { LentFile } from './lent-file.ts';
import { measuredDownload, measuredUpload } from './measured.ts';
import { memoryOf } from './memory.ts';
import { ObjectSource } from './object-source.ts';
import type { TransferOptions, TransferParts } from './options.ts';
import { ReadTimes } from './read-times.ts';
import { retryingRecords } from './records.ts';
import { RetryBudget } from './retry.ts';
import { retryPolicy, type Shared } from './shared.ts';
import { Transfer } from './transfer.ts';
import { uploadFile } from './upload.ts';
import { verifyFile } from './verify.ts';

/**
 * Repeats of all requests together that are always allowed. A short outage affects all requests in
 * progress at once.
 */
const RETRY_BUDGET_MIN = 100;
/** This many repeats of one request double its delay up to the longest one. */
const RETRY_BUDGET_PER_REQUEST = 10;

/**
 * Memory is allocated at the first use. `Unsupported`: the budget cannot hold a part of a size that
 * the store accepts.
 */
export function createTransfers(parts: TransferParts): Transfers {
  const { settings, meter = silentMeter } = parts;
  const { capabilities } = parts.store;
  const { streamCountMax } = planStream(settings, capabilities);
  const concurrency = settings.concurrency || capabilities.preferredConcurrency;
  const shared: Shared = {
    ...parts,
    ...memoryOf(parts),
    retryBudget: new RetryBudget(Math.max(RETRY_BUDGET_MIN, concurrency * RETRY_BUDGET_PER_REQUEST)),
    deadlines: new Deadlines(parts.clock),
    readTimes: new ReadTimes(),
    streamSeats: pLimit(streamCountMax),
    active: new Set(),
    aheadBytes: 0,
    isClosed: false,
  };
  return {
    records: retryingRecords(shared),
    retryPolicy: (what, caller) => retryPolicy(shared, what, caller),
    streamCountMax,
    get memory() {
      const { totalBytes, freeBytes, peakBytes } = shared.pool;
      return { totalBytes, freeBytes, peakBytes };
    },
    upload: (items, options) =>
      during(shared, options, (transfer) =>
        transfer.files(items, (item) => measuredUpload(item, transfer, meter)),
      ),
    checksum: (items, options) =>
      during(shared, options, (transfer) =>
        transfer.files(items, (item) => uploadFile(item, nowhere, transfer)),
      ),
    download: (items, options) =>
      during(shared, options, async (transfer) => {
        await transfer.each(items, (item) => measuredDownload(item, transfer, meter));
      }),
    verify: (items, options) =>
      during(shared, options, async (transfer) => {
        const reports = new Reports();
        await transfer.each(items, (item) => reports.add(verifyFile(item, transfer)));
        return reports.together();
      }),
    source: (file, options) => new StoredFileSource(file, () => new Transfer(shared, options ?? {})),
    objectSource: async (key, options) => ObjectSource.open(key, new Transfer(shared, options ?? {})),
    stream: (file, options) => openFileStream(file, () => new Transfer(shared, options ?? {}), options?.part),
    lend: (options) => {
      const transfer = new Transfer(shared, options ?? {});
      const copies = { areImpossible: false };
      return { lend: (file) => new LentFile(file, transfer, copies), end: () => transfer.end() };
    },
    close: () => close(shared),
  };
}

async function during<T>(
  shared: Shared,
  options: TransferOptions | undefined,
  work: (transfer: Transfer) => Promise<T>,
): Promise<T> {
  const transfer = new Transfer(shared, options ?? {});
  try {
    return await work(transfer);
  } finally {
    await transfer.end();
  }
}

/** Collects reports. Keeps nothing of files without problems. */
class Reports {
  readonly #found: { readonly index: number; readonly problems: VerifyReport['problems'] }[] = [];
  #begun = 0;
  #bytesRead = 0;
  #storedChecksumCount = 0;

  async add(report: Promise<VerifyReport>): Promise<void> {
    const index = this.#begun++;
    const { bytesRead, storedChecksumCount, problems } = await report;
    this.#bytesRead += bytesRead;
    this.#storedChecksumCount += storedChecksumCount;
    if (problems.length > 0) this.#found.push({ index, problems });
  }

  /** Problems are listed in the order in which their files were begun. */
  together(): VerifyReport {
    this.#found.sort((a, b) => a.index - b.index);
    return {
      bytesRead: this.#bytesRead,
      storedChecksumCount: this.#storedChecksumCount,
      problems: this.#found.flatMap(({ problems }) => problems),
    };
  }
}

async function close(shared: Shared): Promise<void> {
  shared.isClosed = true;
  const active = [...shared.active];
  for (const transfer of active) transfer.letGo(new CheckpointError('Aborted', 'the manager was closed'));
  await Promise.all(active.map((transfer) => transfer.finished));
  shared.release();
}
