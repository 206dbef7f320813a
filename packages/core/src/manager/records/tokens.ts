/**
 * The token that an `OutcomeUnknown` gives to its caller. `recover` uses it later to find the
 * outcome of the request.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import { fromHex, parseVersion, toHex } from '../../format/index.ts';

/**
 * A checkpoint that was to be committed. Enough to recognise this process's commit; contains no
 * secret.
 */
export interface CommitToken {
  readonly of: 'commit';
  readonly runId: string;
  readonly id: CheckpointId;
  /** SHA-256 of the manifest, if it was sent. */
  readonly manifestSha256: Uint8Array | undefined;
  /** The caller's receipt; absent for a process that commits without having delivered. */
  readonly receiptKey: string | undefined;
  /**
   * SHA-256 of the receipt's bytes: another process may have delivered under the same key. Absent
   * from tokens older than this field.
   */
  readonly receiptSha256: Uint8Array | undefined;
}

/** A transaction on its way into the catalog. */
export interface DecisionToken {
  readonly of: 'decision';
  readonly runId: string;
  readonly txnId: string;
  /** For messages, such as `pin`. */
  readonly kind: string;
  /** The entry on which it was last sent: it would have become the entry after this one. */
  readonly sentOn: number;
}

/** A record that was to be created. */
export interface RecordToken {
  readonly of: 'record';
  readonly key: string;
  readonly sha256: Uint8Array;
}

export type TokenContent = CommitToken | DecisionToken | RecordToken;

const TOKEN_PREFIX = 'hf1-';

export function writeToken(content: TokenContent): string {
  const bytes = new TextEncoder().encode(JSON.stringify([content.of, ...fieldsOf(content)]));
  const text = btoa(String.fromCharCode(...bytes));
  return TOKEN_PREFIX + text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function fieldsOf(content: TokenContent): unknown[] {
  switch (content.of) {
    case 'commit': {
      const { runId, id, manifestSha256, receiptKey, receiptSha256 } = content;
      const digests = [manifestSha256, receiptSha256].map((digest) => (digest ? toHex(digest) : ''));
      return [runId, id.lineage, id.epoch, `${id.version}`, digests[0], receiptKey ?? '', digests[1]];
    }
    case 'decision':
      return [content.runId, content.txnId, content.kind, content.sentOn];
    case 'record':
      return [content.key, toHex(content.sha256)];
  }
}

/** `InvalidArgument`: the text is not a token, or is incomplete. */
export function readToken(token: string): TokenContent {
  try {
    if (!token.startsWith(TOKEN_PREFIX)) throw new Error('prefix');
    const base64 = token.slice(TOKEN_PREFIX.length).replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const fields: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (!Array.isArray(fields)) throw new Error('fields');
    return contentOf(fields);
  } catch (cause) {
    throw new CheckpointError(
      'InvalidArgument',
      `this is not a token of OutcomeUnknown: pass all of it, from "${TOKEN_PREFIX}" on`,
      { cause },
    );
  }
}

function contentOf([of, ...fields]: unknown[]): TokenContent {
  if (of === 'commit' && (fields.length === 7 || fields.length === 6)) {
    const [runId, lineage, epoch, version, digest, receiptKey, receiptDigest = ''] = fields;
    return {
      of,
      runId: String(runId),
      id: { lineage: count(lineage), epoch: count(epoch), version: parseVersion(String(version)) },
      manifestSha256: digest === '' ? undefined : fromHex(String(digest)),
      receiptKey: receiptKey === '' ? undefined : String(receiptKey),
      receiptSha256: receiptDigest === '' ? undefined : fromHex(String(receiptDigest)),
    };
  }
  if (of === 'decision' && fields.length === 4) {
    const [runId, txnId, kind, sentOn] = fields;
    return { of, runId: String(runId), txnId: String(txnId), kind: String(kind), sentOn: count(sentOn) };
  }
  if (of === 'record' && fields.length === 2) {
    return { of, key: String(fields[0]), sha256: fromHex(String(fields[1])) };
  }
  throw new Error('fields');
}

function count(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error('count');
}
