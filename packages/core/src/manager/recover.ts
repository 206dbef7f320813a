/** What became of a commit that ended in `OutcomeUnknown`. Reads only. */

import type { CheckpointId, RecoverResult } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import { bytesEqual, fromHex, parseVersion, toHex } from '../format/index.ts';
import { precheckCommit } from '../plan/apply-commit.ts';
import type { Catalog } from './catalog.ts';
import type { Engine } from './engine.ts';
import { listsReceipt } from './receipts.ts';

/** What a token remembers: enough to recognise one's own commit, and no secret. */
export interface TokenContent {
  readonly runId: string;
  readonly id: CheckpointId;
  /** Of the manifest that was sent, if it came so far. */
  readonly manifestSha256: Uint8Array | undefined;
  /** The caller's own receipt; absent for a survivor. */
  readonly receiptKey: string | undefined;
}

const TOKEN_PREFIX = 'hf1-';

export function writeToken({ runId, id, manifestSha256, receiptKey }: TokenContent): string {
  const fields = [
    runId,
    id.lineage,
    id.epoch,
    `${id.version}`,
    manifestSha256 ? toHex(manifestSha256) : '',
    receiptKey ?? '',
  ];
  const text = btoa(JSON.stringify(fields)); // every field is ASCII
  return TOKEN_PREFIX + text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

export function readToken(token: string): TokenContent {
  try {
    if (!token.startsWith(TOKEN_PREFIX)) throw new Error('prefix');
    const base64 = token.slice(TOKEN_PREFIX.length).replaceAll('-', '+').replaceAll('_', '/');
    const fields: unknown = JSON.parse(atob(base64));
    if (!Array.isArray(fields) || fields.length !== 6) throw new Error('fields');
    const [runId, lineage, epoch, version, digest, receiptKey] = fields;
    if (!Number.isSafeInteger(lineage) || !Number.isSafeInteger(epoch)) throw new Error('id');
    return {
      runId: String(runId),
      id: { lineage, epoch, version: parseVersion(String(version)) },
      manifestSha256: digest === '' ? undefined : fromHex(String(digest)),
      receiptKey: receiptKey === '' ? undefined : String(receiptKey),
    };
  } catch (cause) {
    throw new CheckpointError(
      'InvalidArgument',
      `this is no token of OutcomeUnknown: it begins with "${TOKEN_PREFIX}" and is given whole`,
      { cause },
    );
  }
}

export async function recover(
  engine: Engine,
  catalog: Catalog,
  token: string,
  signal: AbortSignal | undefined,
): Promise<RecoverResult> {
  const content = readToken(token);
  const { id, manifestSha256 } = content;
  const head = await catalog.read(signal);
  if (head.runId !== content.runId) {
    const found = head.runId === '' ? 'nothing was ever saved here' : `here is run ${head.runId}`;
    throw new CheckpointError('NotFound', `the token is of run ${content.runId}; ${found}`, {
      context: { store: engine.store.uri },
    });
  }
  const answer = precheckCommit(head.state, id, undefined, manifestSha256);
  if (!answer) {
    const detail = `version ${id.version} is not committed, but still can be: \`commit\` settles it`;
    return { outcome: 'pending', id, detail };
  }
  if (answer.kind === 'present-removed') {
    return {
      outcome: 'committed',
      id,
      detail: `version ${id.version} was committed, and has been removed since`,
    };
  }
  if (answer.kind === 'rejected') {
    const outcome = answer.reason === 'unknown' ? 'unknown' : 'not-committed';
    return { outcome, id, detail: answer.message };
  }
  const { checkpoint } = answer;
  const isSame = manifestSha256 !== undefined && bytesEqual(manifestSha256, checkpoint.manifestSha256);
  if (
    isSame ||
    content.receiptKey === undefined ||
    (await listsReceipt(engine, checkpoint, { key: content.receiptKey }, signal))
  ) {
    return { outcome: 'committed', id, detail: `version ${id.version} is committed` };
  }
  return {
    outcome: 'not-committed',
    id,
    detail: `version ${id.version} was committed with the files of another process of this writer`,
  };
}
