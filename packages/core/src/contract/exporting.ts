/** Options and results of writing the tensors of a checkpoint to files of another layout. */

import type { CheckpointId, CheckpointReference } from './checkpoint-facts.ts';
import type { Replace, RestoreTarget } from './files.ts';
import type { WaitOptions } from './progress.ts';

export interface ExportTensorsOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
  /** A directory, which appears whole or not at all, or a target that the caller implements. */
  to: string | RestoreTarget;
  /** Which contents of a non-empty directory may be lost. Default: nothing. */
  replace?: Replace | undefined;
  /**
   * Only tensors in files of the checkpoint that match one of these globs, at least one, as `only`
   * of `restore`. `NotFound`: one of them matches nothing.
   * If they hold parts of tensors, the headers of other safetensors files in the same directories
   * are read too, to see how large the tensors are.
   * Default: all files whose names end in `.safetensors` or `.distcp`.
   */
  from?: readonly string[] | undefined;
  /**
   * Only tensors whose names begin with this. Their new names are without it: with `model.`, tensor
   * `model.head.bias` becomes `head.bias`. Default: all, with their names.
   */
  prefix?: string | undefined;
  /**
   * `safetensors`: as Hugging Face's libraries read them. `distcp`: as the `FileSystemReader` of
   * `torch.distributed.checkpoint` reads them, without the objects that are no tensors. Default:
   * `safetensors`.
   */
  layout?: 'safetensors' | 'distcp' | undefined;
  /** Files of the checkpoint to copy as they are, such as `config.json`: globs. Default: none. */
  also?: readonly string[] | undefined;
  /**
   * Limit on the bytes of the tensors in one file, 1 to 2^53 - 1; default 5 GiB. A larger tensor
   * has a file of its own.
   */
  fileBytesMax?: number | undefined;
}

export interface ExportTensorsResult {
  readonly id: CheckpointId;
  readonly tensorCount: number;
  /** Sum over all files. */
  readonly sizeBytes: number;
  /** Those with tensors, the index if the layout has one, and the copied ones. */
  readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
}

export interface ExportCalls {
  /**
   * Writes the tensors of a version as Hugging Face's libraries read them: as `model.safetensors`,
   * or as `model-00001-of-00002.safetensors` and so on with `model.safetensors.index.json`. With
   * the layout `distcp`, as PyTorch's DCP reads them: `__0_0.distcp` and so on with `.metadata`.
   *
   * Tensors that several ranks have saved in parts, such as those of PyTorch's distributed
   * checkpoints, are joined. Types and bytes stay as they are. Reads safetensors files, and the
   * `.distcp` files of `torch.distributed.checkpoint` by the `.metadata` beside them. No pickle is
   * executed.
   *
   * Reads each byte once, under a lease, and compares it with its record before anything is
   * visible. Memory: 64 MiB beside the byte budget, and the headers. Repeatable with `replace`.
   *
   * `NotFound`: there is no such version, no tensor matches, or a glob of `also` matches no file.
   * `InvalidArgument`: a file is not in its format, two files have tensors of one name, or parts do
   * not make a whole. `Unsupported`: parts that are not in C order, or whose elements are no whole
   * bytes, or a type that the layout does not have. `Corrupt`: bytes do not match their record.
   * `TargetExists`, `StorageFull`, `Denied`: as `restore`.
   */
  exportTensors(options: ExportTensorsOptions): Promise<ExportTensorsResult>;
}
