/**
 * Reads one answer after the other from the bytes of a connection: idle → head → fill | chunked |
 * to-eof → idle. It has no socket: `view` returns where the next bytes belong, and `take` reports
 * how many have arrived there.
 *
 * Only in the state `fill` does `view` return memory of the caller, and never an empty view. The
 * call of `take` with the last byte leaves that state, so the next view is scratch again.
 */

import { planBody } from './body-plan.ts';
import { ChunkedDecoder } from './chunked-decoder.ts';
import { CollectedBody } from './collected-body.ts';
import { badHead, type Phase } from './errors.ts';
import type { DirectRequest } from './message.ts';
import { checkHeadBeginning, findHeadEnd, parseResponseHead, type ResponseHead } from './response-head.ts';

export interface Answer {
  readonly head: ResponseHead;
  readonly body: Uint8Array;
  readonly bytesInto: number | undefined;
}

const SCRATCH_BYTES = 16 * 1024;
const HEAD_BYTES_MAX = 64 * 1024;
const INTERIM_ANSWERS_MAX = 8;
const NO_BYTES = new Uint8Array(0);

export class AnswerReader {
  #state: 'idle' | 'head' | 'fill' | 'chunked' | 'to-eof' = 'idle';
  #request: DirectRequest | undefined;
  #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  /** Bytes of the answer's head, at the start of scratch. */
  #headBytes = 0;
  #interimAnswers = 0;
  #head: ResponseHead | undefined;
  #destination: Uint8Array = NO_BYTES;
  #isInto = false;
  #filledBytes = 0;
  #collected: CollectedBody | undefined;
  #decoder: ChunkedDecoder | undefined;
  #hasSurplus = false;

  /** Bytes arrived that belong to no answer. They could be mistaken for the next answer. */
  get hasSurplus(): boolean {
    return this.#hasSurplus;
  }

  get phase(): Phase {
    return this.#state === 'head' ? 'head' : 'body';
  }

  get bodyBytes(): number {
    return this.#collected?.lengthBytes ?? this.#filledBytes;
  }

  /** No byte of the answer has arrived. */
  get isUnanswered(): boolean {
    return this.#state === 'head' && this.#headBytes === 0 && this.#interimAnswers === 0;
  }

  /** The following bytes are the answer to `request`. */
  begin(request: DirectRequest): void {
    this.#request = request;
    this.#state = 'head';
    this.#headBytes = 0;
    this.#interimAnswers = 0;
  }

  /** Throws if the destination was detached. */
  view(): Uint8Array {
    if (this.#state === 'fill') return this.#destination.subarray(this.#filledBytes);
    if (this.#state === 'head' && this.#headBytes > 0) return this.#scratch.subarray(this.#headBytes);
    return this.#scratch;
  }

  /** Memory that is always safe to return. */
  get scratch(): Uint8Array {
    return this.#scratch;
  }

  /**
   * `bytes` bytes have arrived at the start of the last view. Returns the answer if they complete
   * it. Throws if it is invalid.
   */
  take(bytes: number): Answer | undefined {
    switch (this.#state) {
      case 'fill':
        this.#filledBytes += bytes;
        return this.#filledBytes === this.#destination.byteLength ? this.#finish() : undefined;
      case 'head':
        return this.#takeHead(bytes);
      case 'idle':
        this.#hasSurplus = true;
        return undefined;
      default:
        return this.#takeCollected(0, bytes);
    }
  }

  /** The server has closed its side. Returns the answer if that completes it. */
  takeEnd(): Answer | undefined {
    return this.#state === 'to-eof' ? this.#finish() : undefined;
  }

  #takeHead(bytes: number): Answer | undefined {
    let searchedBytes = this.#headBytes;
    this.#headBytes += bytes;
    for (;;) {
      const end = findHeadEnd(this.#scratch, searchedBytes, this.#headBytes);
      if (end === -1) break;
      const head = parseResponseHead(this.#scratch.subarray(0, end));
      if (head.status >= 200) return this.#takeFinalHead(head, end);
      if (head.status === 101) throw badHead('the server switches protocols without a request to do so');
      if (++this.#interimAnswers > INTERIM_ANSWERS_MAX) {
        throw badHead(`there are more than ${INTERIM_ANSWERS_MAX} interim answers`);
      }
      this.#scratch.copyWithin(0, end, this.#headBytes);
      this.#headBytes -= end;
      searchedBytes = 0;
    }
    checkHeadBeginning(this.#scratch, this.#headBytes);
    if (this.#headBytes === this.#scratch.length) this.#growScratch();
    return undefined;
  }

  #growScratch(): void {
    if (this.#scratch.length >= HEAD_BYTES_MAX)
      throw badHead(`the head has more than ${HEAD_BYTES_MAX} bytes`);
    const grown = Buffer.allocUnsafeSlow(2 * this.#scratch.length);
    this.#scratch.copy(grown);
    this.#scratch = grown;
  }

  #takeFinalHead(head: ResponseHead, headEnd: number): Answer | undefined {
    if (this.#request === undefined) return undefined;
    this.#head = head;
    const plan = planBody(head, this.#request);
    if (plan.kind === 'fill') {
      this.#isInto = plan.isInto;
      return this.#beginFill(plan.destination, headEnd);
    }
    this.#collected = new CollectedBody(plan);
    this.#decoder = plan.kind === 'chunked' ? new ChunkedDecoder(this.#collected) : undefined;
    this.#state = plan.kind;
    return this.#takeCollected(headEnd, this.#headBytes);
  }

  /**
   * Copies the part of the body that came with the head to the destination. The rest is read in
   * place.
   */
  #beginFill(destination: Uint8Array, headEnd: number): Answer | undefined {
    const bytes = Math.min(this.#headBytes - headEnd, destination.byteLength);
    if (this.#headBytes - headEnd > bytes) this.#hasSurplus = true;
    this.#destination = destination;
    this.#state = 'fill';
    if (bytes > 0) destination.set(this.#scratch.subarray(headEnd, headEnd + bytes));
    this.#filledBytes = bytes;
    return bytes === destination.byteLength ? this.#finish() : undefined;
  }

  #takeCollected(start: number, end: number): Answer | undefined {
    if (this.#decoder === undefined) {
      this.#collected?.append(this.#scratch, start, end);
      return undefined;
    }
    const taken = this.#decoder.push(this.#scratch, start, end);
    if (!this.#decoder.isDone) return undefined;
    if (taken < end) this.#hasSurplus = true;
    return this.#finish();
  }

  #finish(): Answer | undefined {
    if (this.#head === undefined) return undefined;
    const answer: Answer = {
      head: this.#head,
      body: this.#collected?.take() ?? (this.#isInto ? NO_BYTES : this.#destination),
      bytesInto: this.#isInto ? this.#filledBytes : undefined,
    };
    this.#forget();
    return answer;
  }

  /** From now on every view is scratch. */
  #forget(): void {
    this.#state = 'idle';
    this.#request = undefined;
    this.#head = undefined;
    this.#destination = NO_BYTES;
    this.#isInto = false;
    this.#filledBytes = 0;
    this.#collected = undefined;
    this.#decoder = undefined;
  }
}
