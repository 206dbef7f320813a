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

/** Opens the files of a model for writing. */
export interface ModelFiles {
  /** `name`: a relative path. Write all of `sizeBytes`, then close the sink. */
  open(file: SinkFile): Promise<RandomSink>;
}

const OPTIONS: Rules<TargetOptions> = {
  signal: optional(abortSignal),
  replace: optional(oneOf(true, false, 'everything')),
  isOwn: optional(callback),
  onLeft: optional(callback),
};

/**
 * Writes a model into the directory `trainerId` below `directory`, and nowhere else. Two trainers
 * that were both elected therefore leave two whole models. The directory appears durably, with all
 * files that `writeFiles` has written, when this resolves; on failure it does not appear. Resolves
 * to its path.
 *
 * `InvalidArgument`: the id is not a valid directory name, no file was written, or a file is not
 * closed or has the wrong size. `TargetExists`: this trainer already has a model there; with
 * `replace` the new one replaces it. Other errors come from the disk and from `writeFiles`.
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

/**
 * Counts the files that were opened and tracks those not yet closed; closing a file makes it
 * durable.
 */
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
  return new CheckpointError('InvalidArgument', `${path} was not created: ${why}`, { context: { path } });
}
