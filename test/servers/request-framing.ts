/** Finds the beginning and the end of an HTTP/1.1 request in the bytes of a connection. */

export interface RequestHead {
  readonly method: string;
  /** With the query, as the client sent it. */
  readonly path: string;
  /** Names in lower case; the last of equal names counts. */
  readonly headers: Readonly<Record<string, string>>;
}

const HEAD_BYTES_MAX = 64 * 1024;

export function parseRequestHead(text: string): RequestHead {
  const [line = '', ...fields] = text.split('\r\n');
  const [method = '', path = '', version] = line.split(' ');
  if (version !== 'HTTP/1.1') throw new Error(`not a request of HTTP/1.1: ${line}`);
  const headers = fields
    .map((field) => /^([^:]+):[ \t]*(.*?)[ \t]*$/.exec(field))
    .filter((match) => match !== null)
    .map((match) => [(match[1] ?? '').toLowerCase(), match[2] ?? '']);
  return { method, path, headers: Object.fromEntries(headers) };
}

/** Framing of one request, fed with its bytes as they arrive. */
export class RequestFraming {
  /** Set once the last byte of the head has arrived. */
  head: RequestHead | undefined;
  isComplete = false;
  /** Text of the head, of a chunk's size or of a trailer. */
  #text = '';
  /** Bytes of the body, or of a chunk and its line end, that come before the next text. */
  #bodyBytesLeft = 0;
  #isChunked = false;
  #isTrailer = false;

  /** Consumes the bytes of this request at the front of `chunk`. Returns how many they are. */
  push(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !this.isComplete) {
      if (this.#bodyBytesLeft > 0) {
        const count = Math.min(this.#bodyBytesLeft, chunk.length - at);
        this.#bodyBytesLeft -= count;
        at += count;
        if (this.#bodyBytesLeft === 0 && !this.#isChunked) this.isComplete = true;
      } else {
        this.#pushText(String.fromCharCode(chunk[at] as number));
        at++;
      }
    }
    return at;
  }

  #pushText(character: string): void {
    this.#text += character;
    if (this.#text.length > HEAD_BYTES_MAX) throw new Error('the head of a request is too long');
    if (this.head === undefined) {
      if (this.#text.endsWith('\r\n\r\n')) this.#endHead(this.#text.slice(0, -4));
    } else if (this.#text.endsWith('\r\n')) {
      this.#endLine(this.#text.slice(0, -2));
    }
  }

  #endHead(text: string): void {
    const head = parseRequestHead(text);
    this.head = head;
    this.#text = '';
    this.#isChunked = /\bchunked$/i.test(head.headers['transfer-encoding'] ?? '');
    if (this.#isChunked) return;
    this.#bodyBytesLeft = Number(head.headers['content-length'] ?? 0);
    this.isComplete = this.#bodyBytesLeft === 0;
  }

  /**
   * The line is the size of a chunk, or a trailer after the last one. An empty trailer ends the
   * request.
   */
  #endLine(line: string): void {
    this.#text = '';
    if (this.#isTrailer) {
      this.isComplete = line === '';
      return;
    }
    const size = Number.parseInt(line, 16);
    if (!(size >= 0)) throw new Error(`not the size of a chunk: ${line}`);
    if (size === 0) this.#isTrailer = true;
    else this.#bodyBytesLeft = size + 2;
  }
}
