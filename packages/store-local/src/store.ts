import { basename } from 'node:path';
import {
  assertObjectKey,
  type CallOptions,
  type CheckpointError,
  type Clock,
  type CreateOptions,
  compareUtf8,
  type DeleteResult,
  type ErrorCode,
  type GetOptions,
  isObjectKey,
  isRunFile,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  type StoreFact,
  systemClock,
  throwIfAborted,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import {
  type Check,
  DIRECT_ALIGNMENT_BYTES,
  type DirectFile,
  DirectorySync,
  type FileSystem,
  nodeFileSystem,
  OpenFiles,
  type Processes,
  type ProcessIdentity,
  subdirectories,
  type TreeEntry,
  walkTree,
} from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';
import { DurableNames } from './durable-names.ts';
import { objectError, storeError, writeError } from './errors.ts';
import { inspectDirectory } from './inspect.ts';
import { ObjectDeletion } from './object-deletion.ts';
import { etagOf, type FoundObject, infoOf, ObjectFiles } from './object-files.ts';
import { isOwnName } from './own-names.ts';
import { RESERVE_BYTES, Reserve } from './reserve.ts';
import { openUploads, parseToken, type ResumeParts, takeOver } from './resumable.ts';
import { StoreClock } from './store-clock.ts';
import { sweepTemporaries, TemporaryNames } from './temporary-names.ts';
import { type Crc32c, LocalUpload } from './upload.ts';
import { UploadNotes } from './upload-notes.ts';
import { ObjectWriter, type TemporaryFile } from './writer.ts';

const MIB = 1024 * 1024;

const CAPABILITIES: StoreCapabilities = {
  maxCreateBytes: 16 * MIB,
  minPartBytes: DIRECT_ALIGNMENT_BYTES,
  maxPartBytes: 1024 * MIB,
  maxParts: 100_000,
  maxDeleteKeys: 1000,
  maxListKeys: 1000,
  // The engine compares its own checksums when an object is read. A disk keeps no checksums that a
  // write could be compared with.
  verifiesChecksums: false,
  // The constructor sets `true` if processes can be told apart.
  resumesUploads: false,
  alignmentBytes: DIRECT_ALIGNMENT_BYTES,
  // Small files share the syncs of their directory, so throughput grows up to about this many calls
  // at once.
  preferredConcurrency: 32,
  // libuv's number of threads keeps a disk busy. More would only use more memory.
  preferredPartConcurrency: 4,
  takesSharedMemory: true,
};

/** Limit on files kept open for reads of ranges. */
const OPEN_FILES_MAX = 32;

export interface LocalComponents {
  fileSystem?: FileSystem | undefined;
  /** Clock of this machine. */
  clock?: Pick<Clock, 'nowMs'> | undefined;
  /**
   * CRC32C. Without it uploads cannot be resumed, because it identifies the parts that an earlier
   * process wrote.
   */
  crc32c?: Crc32c | undefined;
  /** Default: from /proc. */
  processes?: Processes | undefined;
  /** Space kept in reserve, to be freed when the disk is full; 0: none. Default 1 MiB. */
  reserveBytes?: number | undefined;
}

/** What resumable uploads need, where they are possible. */
export interface ResumeComponents {
  readonly crc32c: Crc32c;
  readonly processes: Processes;
  readonly self: ProcessIdentity;
}

interface Call {
  readonly action: string;
  readonly key?: string | undefined;
  readonly options?: CallOptions | undefined;
}

/**
 * Objects as files below one directory. A key is the path. Any number of processes may use the
 * directory at the same time.
 */
export class LocalStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;

  readonly #config: LocalConfig;
  readonly #fileSystem: FileSystem;
  readonly #clock: StoreClock;
  readonly #files: ObjectFiles;
  readonly #names: DurableNames;
  readonly #reserve: Reserve;
  readonly #temporaries: TemporaryNames;
  readonly #writer: ObjectWriter;
  readonly #resuming: (ResumeParts & Pick<ResumeComponents, 'crc32c'>) | null;
  readonly #openFiles = new OpenFiles(OPEN_FILES_MAX);
  readonly #deletion: ObjectDeletion;
  readonly #uploads = new Set<LocalUpload>();
  readonly #calls = new Set<Promise<unknown>>();
  #closing: Promise<void> | null = null;

  constructor(config: LocalConfig, components: LocalComponents = {}, resume: ResumeComponents | null = null) {
    this.uri = config.uri;
    this.capabilities = { ...CAPABILITIES, resumesUploads: resume !== null };
    this.#config = config;
    this.#fileSystem = components.fileSystem ?? nodeFileSystem;
    this.#files = new ObjectFiles(config, this.#fileSystem);
    const sync = new DirectorySync({
      fileSystem: this.#fileSystem,
      isEnabled: config.durability === 'fsync',
    });
    this.#temporaries = new TemporaryNames(resume?.self ?? null);
    const newPath = () => `${this.#files.temporaryDirectory}/${this.#temporaries.ofOther()}`;
    const { nowMs } = components.clock ?? systemClock;
    this.#clock = new StoreClock({ fileSystem: this.#fileSystem, nowMs, newPath });
    this.#reserve = new Reserve({
      fileSystem: this.#fileSystem,
      files: this.#files,
      sizeBytes: components.reserveBytes ?? RESERVE_BYTES,
    });
    this.#names = new DurableNames({
      uri: this.uri,
      files: this.#files,
      sync,
      nowMs: () => this.#clock.lastMs(),
    });
    this.#writer = new ObjectWriter({
      config,
      fileSystem: this.#fileSystem,
      files: this.#files,
      names: this.#names,
      temporaries: this.#temporaries,
      tidy: () => this.#tidy(resume?.processes ?? null),
    });
    this.#deletion = new ObjectDeletion({
      uri: this.uri,
      fileSystem: this.#fileSystem,
      files: this.#files,
      openFiles: this.#openFiles,
    });
    this.#resuming = resume && this.#resumingWith(resume);
    if (resume) this.listUploads = (prefix, options) => this.#listUploads(prefix, options);
  }

  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo> {
    return this.#run({ action: 'create', key, options }, (check) => {
      const { maxCreateBytes } = this.capabilities;
      if (bytes.byteLength > maxCreateBytes) {
        const what = `has ${bytes.byteLength} bytes; one create takes at most ${maxCreateBytes}`;
        throw this.#error('InvalidArgument', key, what);
      }
      return this.#writer.create(key, bytes, check);
    });
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    return this.#run({ action: 'look at', key, options }, async () => {
      const found = await this.#find(key);
      await this.#names.found(key, found);
      return infoOf(key, found.stats);
    });
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    return this.#run({ action: 'read', key, options }, async (check) => {
      const opened = await this.#files.open(key);
      if (opened === null) {
        await this.#find(key);
        // The object exists by now, but it was missing when it was opened.
        throw this.#missing(key);
      }
      const { file, stats } = opened;
      try {
        const info = infoOf(key, stats);
        if (info.sizeBytes > options.maxBytes) {
          const what = `has ${info.sizeBytes} bytes; at most ${options.maxBytes} were expected`;
          throw this.#error('Corrupt', key, what);
        }
        const bytes = new Uint8Array(info.sizeBytes);
        const count = await file.read(0, bytes, check);
        if (count !== bytes.byteLength)
          throw this.#error('Corrupt', key, `ends at byte ${count} of ${info.sizeBytes}`);
        await this.#names.found(key, await this.#find(key));
        return { ...info, bytes };
      } finally {
        await file.close();
      }
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    return this.#run({ action: 'read', key, options }, async (check) => {
      if (!Number.isSafeInteger(offsetBytes) || offsetBytes < 0) {
        const what = `cannot be read at offset ${offsetBytes}; offsets are whole numbers from 0 on`;
        throw this.#error('InvalidArgument', key, what);
      }
      const found = await this.#find(key);
      const identity = etagOf(found.stats);
      if (options?.etag !== undefined && options.etag !== identity) {
        throw this.#error(
          'Corrupt',
          key,
          `was replaced by another object: its etag is ${identity}, expected ${options.etag}`,
        );
      }
      const lengthBytes = Math.min(buffer.byteLength, Number(found.stats.size) - offsetBytes);
      if (lengthBytes <= 0) return 0;
      // Read a whole number of blocks if the buffer has room for them, so that the end of the file
      // bypasses the page cache too.
      const blocksBytes = Math.ceil(lengthBytes / DIRECT_ALIGNMENT_BYTES) * DIRECT_ALIGNMENT_BYTES;
      const room = buffer.subarray(0, Math.min(buffer.byteLength, blocksBytes));
      const count = await this.#openFiles.use(
        { path: found.path, identity },
        () => this.#openFound(key, found),
        (file) => file.read(offsetBytes, room, check),
      );
      return Math.min(count, lengthBytes);
    });
  }

  beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    return this.#run({ action: 'create', key, options }, async () => {
      const { minPartBytes, maxPartBytes } = this.capabilities;
      const { partSizeBytes } = options;
      if (!isPartSize(partSizeBytes)) {
        const what = `cannot have parts of ${partSizeBytes} bytes; a part has from ${minPartBytes} to ${maxPartBytes}`;
        throw this.#error('InvalidArgument', key, what);
      }
      const temporary = await this.#writer.openTemporary(key, this.#temporaries.ofUpload());
      const note = { key, partSizeBytes, beganAtMs: await this.#clock.nowMs() };
      await this.#resuming?.notes.write(basename(temporary.path), note).catch(async (error: unknown) => {
        await this.#writer.remove(temporary);
        throw writeError(error, 'create', { store: this.uri, key });
      });
      return this.#upload({ key, partSizeBytes }, temporary, false);
    });
  }

  resumeUpload(token: string, options?: CallOptions): Promise<Upload> {
    return this.#run({ action: 'resume an upload to', options }, async () => {
      const resuming = this.#resuming;
      if (resuming === null) {
        const what = 'cannot resume uploads: this system does not show whether a process has ended';
        throw objectError('Unsupported', { store: this.uri }, what);
      }
      const parsed = parseToken(this.uri, token, isPartSize);
      return this.#upload(parsed, await takeOver(resuming, parsed), true);
    });
  }

  async *#listUploads(prefix: string, options?: CallOptions): AsyncGenerator<OpenUpload, void, void> {
    const resuming = this.#resuming;
    if (resuming === null) return;
    yield* await this.#run({ action: 'list the uploads of', options }, () => openUploads(resuming, prefix));
  }

  #resumingWith({ crc32c, processes, self }: ResumeComponents) {
    const directory = this.#files.temporaryDirectory;
    const [uri, writer, fileSystem] = [this.uri, this.#writer, this.#fileSystem];
    const notes = new UploadNotes({ fileSystem, directory, processes, self });
    return { uri, writer, fileSystem, directory, notes, crc32c };
  }

  #upload(
    upload: Pick<Upload, 'key' | 'partSizeBytes'>,
    temporary: TemporaryFile,
    isResumed: boolean,
  ): LocalUpload {
    const { key } = upload;
    const parts = {
      uri: this.uri,
      writer: this.#writer,
      names: this.#names,
      maxParts: this.capabilities.maxParts,
      resuming: this.#resuming,
      run: <T>(options: CallOptions | undefined, work: (check: Check) => Promise<T>) =>
        this.#run({ action: 'write', key, options }, work),
      onEnd: (ended: LocalUpload) => this.#uploads.delete(ended),
    };
    const begun = new LocalUpload(upload, temporary, parts, isResumed);
    this.#uploads.add(begun);
    return begun;
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const walk = walkTree(this.#fileSystem, this.#files.root, {
      prefix,
      startAfter: options.startAfter,
      isHidden: isOwnName,
      withDirectories: true,
      missing: 'skip',
      check: () => this.#assertGoesOn(options.signal),
    });
    for (let isFirst = true; ; isFirst = false) {
      const { page, isLast } = await this.#run({ action: 'list', options }, () =>
        this.#nextPage(walk, (entry) => mayBeListed(entry, prefix, options.startAfter)),
      );
      if (page.objects.length > 0 || isFirst) yield page;
      if (isLast) return;
    }
  }

  async *listDirectories(
    prefix: string,
    options?: CallOptions,
  ): AsyncGenerator<readonly string[], void, void> {
    const names = await this.#run({ action: 'list', options }, (check) =>
      subdirectories(this.#fileSystem, this.#files.root, prefix, {
        isHidden: isOwnName,
        missing: 'skip',
        check,
      }),
    );
    yield names.filter((name) => isObjectKey(prefix + name));
  }

  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]> {
    return this.#run({ action: 'delete from', options }, async (check) => {
      for (const key of keys) assertObjectKey(key, this.uri);
      const results = await this.#deletion.deleteMany(keys, check);
      await this.#reserve.keepAgain();
      return results;
    });
  }

  makeRoom(options?: CallOptions): Promise<boolean> {
    return this.#run({ action: 'make room in', options }, async () => {
      // Tidying may be making the reserve at this moment, and would take the room again.
      await this.#writer.tidied();
      return this.#reserve.giveUp();
    });
  }

  inspect(options?: CallOptions): Promise<readonly StoreFact[]> {
    return this.#run({ action: 'look at the place of', options }, () =>
      inspectDirectory(this.#config, this.#fileSystem),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#calls);
    for (const upload of [...this.#uploads]) await upload.letGo();
    await this.#openFiles.close();
    await this.#writer.tidied();
    await this.#reserve.leave();
  }

  /**
   * Runs one call: rejects it when the store is closed, lets `close` wait for it, and translates
   * its errors.
   */
  async #run<T>(call: Call, work: (check: Check) => Promise<T>): Promise<T> {
    const { action, key, options } = call;
    if (this.#closing !== null) throw objectError('InvalidArgument', { store: this.uri }, 'is closed');
    throwIfAborted(options?.signal);
    if (key !== undefined) assertObjectKey(key, this.uri);
    const running = Promise.resolve(() => this.#assertGoesOn(options?.signal)).then(work);
    this.#calls.add(running);
    try {
      return await running;
    } catch (error) {
      throw storeError(error, action, { store: this.uri, key });
    } finally {
      this.#calls.delete(running);
    }
  }

  #assertGoesOn(signal: AbortSignal | undefined): void {
    throwIfAborted(signal);
    if (this.#closing !== null) throw objectError('Aborted', { store: this.uri }, 'was closed');
  }

  async #tidy(processes: Processes | null): Promise<void> {
    const directory = this.#files.temporaryDirectory;
    const nowMs = () => this.#clock.nowMs();
    const own = this.#temporaries;
    await sweepTemporaries({ fileSystem: this.#fileSystem, directory, own, processes, nowMs });
    await this.#reserve.keep();
  }

  async #find(key: string): Promise<FoundObject> {
    const found = await this.#files.find(key);
    if (found === null) throw this.#missing(key);
    return found;
  }

  async #openFound(key: string, found: FoundObject): Promise<DirectFile> {
    const opened = await this.#files.openFile(found.path);
    if (opened === null) throw this.#missing(key);
    if (etagOf(opened.stats) === etagOf(found.stats)) return opened.file;
    await opened.file.close();
    throw this.#error('Corrupt', key, 'was replaced by another object while it was opened');
  }

  async #nextPage(
    walk: AsyncGenerator<TreeEntry>,
    isWanted: (entry: TreeEntry) => boolean,
  ): Promise<{ page: ListPage; isLast: boolean }> {
    const storeTimeMs = await this.#clock.nowMs();
    const keys: string[] = [];
    let isLast = false;
    while (keys.length < this.capabilities.maxListKeys && !isLast) {
      const next = await walk.next();
      if (next.done) isLast = true;
      else if (isWanted(next.value)) keys.push(next.value.name);
    }
    const found = await Promise.all(keys.map((key) => this.#files.look(key)));
    const objects: ObjectInfo[] = [];
    const shown: { key: string; found: FoundObject }[] = [];
    for (const [index, object] of found.entries()) {
      const key = keys[index];
      if (object === null || key === undefined) continue; // Deleted meanwhile.
      objects.push(infoOf(key, object.stats));
      if ('path' in object) shown.push({ key, found: object });
    }
    await this.#names.listed(shown, storeTimeMs);
    return { page: { objects, storeTimeMs }, isLast };
  }

  #missing(key: string): CheckpointError {
    return this.#error('NotFound', key, 'does not exist');
  }

  #error(code: ErrorCode, key: string, what: string): CheckpointError {
    return objectError(code, { store: this.uri, key }, what);
  }
}

/**
 * Everything but directories is listed. A directory with the name of a record is listed too: the
 * record cannot be read, and a listing that omitted it would hide that.
 */
function mayBeListed({ name, kind }: TreeEntry, prefix: string, startAfter = ''): boolean {
  if (kind !== 'directory') return kind !== 'unnameable';
  return isRunFile(name) && name.startsWith(prefix) && compareUtf8(name, startAfter) > 0;
}

function isPartSize(sizeBytes: number): boolean {
  const { minPartBytes, maxPartBytes } = CAPABILITIES;
  return Number.isSafeInteger(sizeBytes) && sizeBytes >= minPartBytes && sizeBytes <= maxPartBytes;
}
