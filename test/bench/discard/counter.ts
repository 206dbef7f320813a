/** Counts of the discarding server between two queries. */

import type { IncomingMessage } from 'node:http';

export interface Counts {
  /** Number of opened TCP connections. */
  readonly connections: number;
  readonly requests: number;
  /**
   * Evidence of checksums in the request heads that move payload: method, header, and its value if
   * that is a word.
   */
  readonly checksumHeaders: readonly string[];
}

const CHECKSUM_HEADERS =
  /^(content-md5|x-amz-(content-sha256|checksum-.*|sdk-checksum-algorithm|trailer)|x-goog-hash|x-ms-(content-crc64|blob-content-md5|meta-crc32c|structured-body))$/;

export class Counter {
  connections = 0;
  requests = 0;
  readonly #checksumHeaders = new Set<string>();

  noteChecksums(request: IncomingMessage): void {
    for (const [name, value] of Object.entries(request.headers)) {
      if (!CHECKSUM_HEADERS.test(name)) continue;
      const isWord = /^(UNSIGNED|STREAMING|ENABLED|x-amz-|[A-Z0-9_]+$)/.test(String(value));
      this.#checksumHeaders.add(`${request.method} ${name}${isWord ? `: ${value}` : ''}`);
    }
  }

  /** Returns the counts and resets them to zero. */
  take(): Counts {
    const { connections, requests } = this;
    const checksumHeaders = [...this.#checksumHeaders].sort();
    [this.connections, this.requests] = [0, 0];
    this.#checksumHeaders.clear();
    return { connections, requests, checksumHeaders };
  }
}
