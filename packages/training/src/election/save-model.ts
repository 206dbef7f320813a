import { join } from 'node:path';
import {
  abortSignal,
  CheckpointError,
  callback,
  checkOptions,
  oneOf,
  optional,
  type RandomSink,
  type Rules,
  type SinkFile,
  type TargetOptions,
  throwIfAborted,
} from '@holdfast/core/contract';
import { localFiles, localPath } from '@holdfast/local-files';
import { checkTrainerId } from './election.ts';

/** Where the files of a model go. */
export interface ModelFiles {
  /** `name`: a relative path. All of `sizeBytes` are to be written, and the sink closed. */
  open(file: SinkFile): Promise<RandomSink>;
}

const OPTIONS: Rules<TargetOptions> = {
  signal: optional(abortSignal),
  replace: optional(oneOf(true, false, 'everything')),
  isOwn: optional(callback),
  onLeft: optional(callback),
};

/**
 * Writes a model into the directory `trainerId` below `directory`, and nowhere else: two trainers that were both elected leave two whole models.
 * It appears, durable, when this resolves, with all that `writeFiles` has written; else not at all. Resolves to its path.
 *
 * `InvalidArgument`: the id is no name of a directory, no file was written, or one is not closed or not of its size. `TargetExists`: this
 * trainer has a model there already; with `replace` the new one takes its place. Other errors are those of the disk and of `writeFiles`.
 */
export async function saveModel(
  directory: string,
  trainerId: string,
  writeFiles: (model: ModelFiles) => Promise<void>,
  options: TargetOptions = {},
): Promise<string> {
  checkTrainerId(trainerId);
  callback('writeFiles', writeFiles);
  checkOptions(options, OPTIONS);
  const path = join(localPath(directory), trainerId);
  const target = await localFiles.openTarget(path, options);
  const files = new OpenedFiles((file) => target.open(file));
  try {
    await writeFiles(files);
    files.assertComplete(path);
    throwIfAborted(options.signal);
    await target.publish();
    return path;
  } catch (error) {
    await target.discard();
    throw error;
  }
}

/** Files that were opened; a close makes one durable. */
class OpenedFiles implements ModelFiles {
  readonly #openFile: (file: SinkFile) => Promise<RandomSink>;
  readonly #unclosed = new Set<string>();
  #count = 0;

  constructor(openFile: (file: SinkFile) => Promise<RandomSink>) {
    this.#openFile = openFile;
  }

  async open(file: SinkFile): Promise<RandomSink> {
    this.#count += 1;
    this.#unclosed.add(file.name);
    const sink = await this.#openFile(file);
    return {
      writeAt: (offsetBytes, buffer) => sink.writeAt(offsetBytes, buffer),
      close: async () => {
        await sink.close();
        this.#unclosed.delete(file.name);
      },
    };
  }

  assertComplete(path: string): void {
    const [name] = this.#unclosed;
    if (name !== undefined) throw incomplete(path, `"${name}" was opened and not closed`);
    if (this.#count === 0) throw incomplete(path, 'no file was written');
  }
}

function incomplete(path: string, why: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} does not appear: ${why}`, { context: { path } });
}
