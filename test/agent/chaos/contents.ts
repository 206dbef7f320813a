/** What a run holds, by the calls of an agent. */

import type { AgentClient } from '../agent-client.ts';
import type { FoundVersion } from './verdict.ts';

export async function committedVersions(client: AgentClient, uri: string): Promise<number[]> {
  const { status, body } = await client.call('versions', { query: { uri } });
  if (status === 404) return [];
  if (status !== 200) throw new Error(`the versions cannot be read: ${JSON.stringify(body)}`);
  return (body.versions as { version: string }[]).map(({ version }) => Number(version));
}

/** `lastVersion`: later ones are not of the ranks. */
export async function contentsOf(
  client: AgentClient,
  uri: string,
  lastVersion: number,
): Promise<FoundVersion[]> {
  const found: FoundVersion[] = [];
  for (const version of await committedVersions(client, uri)) {
    if (version > lastVersion) continue;
    const { body } = await client.call('version', { path: { version: String(version) }, query: { uri } });
    const names = (body.files as { name: string }[]).map(({ name }) => name);
    const files = [];
    for (const name of names) {
      const query = new URLSearchParams({ uri, version: String(version), name });
      const { status, bytes } = await client.raw({ method: 'GET', path: `/v1/files?${query}` });
      if (status !== 200) throw new Error(`${name} of version ${version} cannot be read: ${bytes}`);
      files.push({ name, numbers: numbersOf(name, bytes) });
    }
    found.push({ version, files });
  }
  return found;
}

/** The different words of the data. */
function numbersOf(name: string, bytes: Buffer): Set<number> {
  const data = name.endsWith('.safetensors') ? bytes.subarray(8 + Number(bytes.readBigUInt64LE(0))) : bytes;
  const words = new BigUint64Array(Uint8Array.from(data).buffer, 0, Math.floor(data.byteLength / 8));
  return new Set([...new Set(words)].map(Number));
}
