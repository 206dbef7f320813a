import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { ParameterShard } from './parameter-shard.ts';
import type { Shape } from './parameters.ts';
import { NOW, RemoteServer, serve } from './remote-server.ts';

const shape: Shape = { seed: 3, rowCounts: [40, 10, 24] };
const position = { index: 0, count: 2 };
const ids = [Int32Array.of(38, 0), Int32Array.of(), Int32Array.of(2, 4, 22)];

async function started() {
  const shard = ParameterShard.begin(shape, position);
  const first = shard.copy();
  const shardAt = (version: number) => (version === NOW ? shard : version === 0 ? first : null);
  const port = await serve(position, { shardAt, push: (...given) => shard.push(...given) });
  return { shard, first, port };
}

describe('RemoteServer', () => {
  it('pull and push over a socket do what they do on the shard', async () => {
    const { shard, port } = await started();
    const local = shard.copy();
    const remote = await RemoteServer.connect(port, position);
    const pulled = await remote.pull(ids);
    expect(pulled).toEqual(local.pull(ids));
    await remote.push(ids, pulled);
    local.push(ids, local.pull(ids));
    expect(shard.state).toEqual(local.state);
    expect(shard.version).toBe(1);
    remote.close();
  });

  it('a version that was put aside is as it was; one that is gone is refused', async () => {
    const { shard, first, port } = await started();
    shard.push(ids, shard.copy().pull(ids));
    const before = await RemoteServer.connect(port, position, 0);
    expect(await before.pull(ids)).toEqual(first.pull(ids));
    expect(shard.pull(ids)).not.toEqual(first.pull(ids));
    const gone = await RemoteServer.connect(port, position, 7);
    await expect(gone.pull(ids)).rejects.toThrow('no such checkpoint');
    before.close();
    gone.close();
  });

  it('a request that is under way when the connection breaks is refused', async () => {
    const { port } = await started();
    const remote = await RemoteServer.connect(port, position);
    const pulling = remote.pull(ids);
    remote.close();
    await expect(pulling).rejects.toThrow();
  });

  it('a frame longer than any of the demo ends the connection, and takes no memory', async () => {
    const { port } = await started();
    const stranger = connect({ host: '127.0.0.1', port });
    stranger.write(new Uint8Array(Int32Array.of(2 ** 30, 1).buffer));
    await once(stranger.resume(), 'close');
    expect(stranger.bytesRead).toBe(0);
  });
});
