/**
 * A minimal S3, GCS or Azure server for saves and restores. It keeps no large object, so a
 * measurement shows the client's own cost. It keeps objects up to `KEPT_BYTES_MAX`. For larger ones
 * it stores the size and returns the pattern of the benchmark's files. It does not check
 * signatures.
 *
 * Runs as a separate process: `server.ts s3|gcs|azure PATTERN_FILE [KEY.pem CERTIFICATE.pem]`,
 * started with an IPC channel. It sends `{ port }` once it listens. It answers every message with
 * `Counts` and resets them to zero. It exits when the channel closes.
 */

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { azureDialect } from './azure.ts';
import { Contents } from './contents.ts';
import { Counter } from './counter.ts';
import { gcsDialect } from './gcs.ts';
import type { Dialect } from './messages.ts';
import { s3Dialect } from './s3.ts';

const DIALECTS: Readonly<Record<string, (contents: Contents, counter: Counter) => Dialect>> = {
  s3: s3Dialect,
  gcs: gcsDialect,
  azure: azureDialect,
};

const [name = '', patternPath = '', keyPath, certificatePath] = process.argv.slice(2);
const counter = new Counter();
const answerTo = DIALECTS[name]?.(new Contents(readFileSync(patternPath)), counter);
if (answerTo === undefined) throw new Error(`"${name}" is no dialect: ${Object.keys(DIALECTS).join(', ')}`);

async function onRequest(request: IncomingMessage, response: ServerResponse, answer: Dialect): Promise<void> {
  try {
    counter.requests++;
    const { status, headers = {}, body = [] } = await answer(request);
    response.writeHead(status, headers);
    if (request.method !== 'HEAD') for (const piece of body) response.write(piece);
    response.end();
  } catch (error) {
    console.error(error);
    // The client sees a broken connection, and our output has the error.
    request.destroy();
  }
}

const listener = (request: IncomingMessage, response: ServerResponse) =>
  void onRequest(request, response, answerTo);

const server =
  keyPath !== undefined && certificatePath !== undefined
    ? createTlsServer({ key: readFileSync(keyPath), cert: readFileSync(certificatePath) }, listener)
    : createServer(listener);
server.on('connection', () => {
  counter.connections++;
});
// Clients keep connections while they read from disk. Closing those connections would count them
// twice.
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('message', () => process.send?.(counter.take()));
process.on('disconnect', () => process.exit(0));
