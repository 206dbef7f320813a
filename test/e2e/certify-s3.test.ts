/**
 * `holdfast certify` on servers that speak S3: one that keeps every promise, one that does not, and
 * an unreachable one.
 */

import { ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import {
  describeOnMinio,
  describeOnS3,
  describeOnVersitygw,
  type OwnTestServer,
} from '../servers/describe-on-s3.ts';
import { credentialsEnv, restrictedCredentials, s3Client } from '../servers/s3-access.ts';
import { holdfast } from './holdfast-process.ts';

/** The test moves hundreds of megabytes, possibly on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;

/** Number of objects and uploads in a bucket. */
async function leftIn(server: OwnTestServer, Bucket: string): Promise<{ objects: number; uploads: number }> {
  const client = await s3Client(server);
  try {
    const objects = (await client.send(new ListObjectsV2Command({ Bucket }))).KeyCount ?? 0;
    const uploads = (await client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads?.length ?? 0;
    return { objects, uploads };
  } finally {
    client.destroy();
  }
}

/** In a short run, test/s3/conformance.test.ts shows that MinIO keeps its promises. */
function describeCertified(): void {
  describeOnS3('certify on S3', (server) => {
    it(
      'a store that keeps its promises is certified, and the certificate holds no secret',
      async () => {
        const { uri, env } = await server().newBucket();
        const { code, stdout, stderr } = await holdfast(['certify', uri, '--json'], { env: { ...env } });
        expect(code, stdout + stderr).toBe(0);
        const certificate = JSON.parse(stdout);
        expect(certificate).toMatchObject({ verdict: 'certified', failedCount: 0, notRunCount: 0 });
        expect(certificate.capabilities.verifiesChecksums).toBe(true);
        for (const secret of Object.values(env)) expect(stdout).not.toContain(secret);
      },
      TEST_TIMEOUT_MS,
    );
  });
}

if (LONG_COUNT > 0) describeCertified();

describeOnMinio('certify on a MinIO of its own', {}, (server) => {
  it(
    'Ctrl-C in the middle of uploads: no object and no upload is left, exit 130',
    async () => {
      const { uri, env, bucket } = await server().newBucket();
      let isSent = false;
      const { code } = await holdfast(['certify', uri, '--progress', 'json'], {
        env: { ...env },
        onStderr: (text, kill) => {
          if (isSent || !text.includes('"group":"upload"')) return;
          isSent = true;
          kill('SIGINT');
        },
      });
      expect(code).toBe(130);
      expect(await leftIn(server(), bucket)).toEqual({ objects: 0, uploads: 0 });
    },
    TEST_TIMEOUT_MS,
  );

  it('without permission to delete: exit 8, and no promise is tried', async () => {
    const { uri } = await server().newBucket();
    const Resource = ['arn:aws:s3:::*'];
    const credentials = await restrictedCredentials(server(), {
      Statement: [
        { Effect: 'Allow', Action: ['s3:*'], Resource },
        { Effect: 'Deny', Action: ['s3:DeleteObject'], Resource },
      ],
    });
    const ended = await holdfast(['certify', uri, '--json'], { env: credentialsEnv(credentials) });
    expect(ended.code).toBe(8);
    expect(JSON.parse(ended.stdout)).toMatchObject({
      verdict: 'unknown',
      passedCount: 0,
      error: { code: 'Denied' },
    });
  });

  it('a server that is not there: exit 75', async () => {
    const { uri, env } = await server().newBucket();
    const nobody = uri.replace(/endpoint=[^&]*/, `endpoint=${encodeURIComponent('http://127.0.0.1:1')}`);
    const ended = await holdfast(['certify', nobody, '--json'], { env: { ...env } });
    expect(ended.code).toBe(75);
    expect(JSON.parse(ended.stdout)).toMatchObject({ verdict: 'unknown', error: { code: 'Unavailable' } });
  });
});

describe('certify on a store that must not be trusted', () => {
  describeOnVersitygw('versitygw', (server) => {
    it(
      'is refused: exit 2, and says which promises are broken',
      async () => {
        const { uri, env } = await server().newBucket();
        const { code, stdout, stderr } = await holdfast(['certify', uri, '--json'], { env: { ...env } });
        expect(code, stdout).toBe(2);
        const certificate = JSON.parse(stdout);
        expect(certificate).toMatchObject({ verdict: 'refused', error: { code: 'Unsupported' } });
        expect(certificate.failedCount).toBeGreaterThan(0);
        for (const secret of Object.values(env)) expect(stdout).not.toContain(secret);
        expect(stderr).toContain('is not certified: it breaks ');
      },
      TEST_TIMEOUT_MS,
    );
  });
});
