import { describe, expect, it } from 'vitest';
import { NodeHttp } from './node-http.ts';
import { Secret } from './secret.ts';

const PROXY = { variable: 'HTTPS_PROXY', url: new Secret('http://me:canary@proxy:1'), secrets: [] };

describe('NodeHttp', () => {
  it('a Node that would bypass a proxy: an error that names variable and versions', () => {
    expect(() => new NodeHttp({ proxy: PROXY, knowsProxies: false })).toThrow(
      expect.objectContaining({
        code: 'InvalidConfig',
        message: `HTTPS_PROXY names a proxy, and this Node (${process.version}) cannot use one; use Node 22.21, 24.5 or newer`,
      }),
    );
  });

  it('needs nothing of the kind without a proxy', () => {
    new NodeHttp({ knowsProxies: false }).close();
  });
});
