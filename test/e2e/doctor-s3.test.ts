/** `holdfast doctor` on servers that speak S3: a reliable one and an unreliable one. */

import { PutBucketLifecycleConfigurationCommand } from '@aws-sdk/client-s3';
import { findingsOf } from '@holdfast/cli/internal/doctor';
import { describe, expect, it } from 'vitest';
import {
  describeOnMinio,
  describeOnS3,
  describeOnVersitygw,
  type OwnTestServer,
} from '../servers/describe-on-s3.ts';
import { credentialsEnv, restrictedCredentials, s3Client } from '../servers/s3-access.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { type Ended, holdfast } from './holdfast-process.ts';

/** Some servers are slow on a busy machine, and so is a race of a hundred rounds. */
const TEST_TIMEOUT_MS = 120_000;

interface Answer {
  readonly verdict: string;
  readonly checks: readonly { readonly id: string; readonly status: string; readonly seen: string }[];
  readonly error?: { readonly code: string; readonly message: string };
}

async function doctor(uri: string, env: TestBucket['env']): Promise<{ answer: Answer; ended: Ended }> {
  const ended = await holdfast(['doctor', uri, '--quick', '--json'], { env: { ...env } });
  return { answer: JSON.parse(ended.stdout), ended };
}

const idsOf = ({ checks }: Answer, status: string) =>
  checks.filter((check) => check.status === status).map(({ id }) => id);

describeOnS3('doctor on S3', (server) => {
  it(
    'a store that keeps its promises is safe, throughput included, and nothing is left',
    async () => {
      const { uri, env } = await server().newBucket();
      const { code, stdout } = await holdfast(['doctor', uri], { env: { ...env } });
      expect(code, stdout).toBe(0);
      expect(stdout).toMatch(/^ok {2,}checksums {2,}wrong ones are refused, for objects and parts$/m);
      expect(stdout).toMatch(/^ok {2,}throughput .* up, .* down/m);
      expect(stdout).toMatch(/^ok {2,}clean up {2,}nothing is left below doctor-/m);
      expect(stdout).toMatch(/^safe for checkpoints {2,}/m);
    },
    TEST_TIMEOUT_MS,
  );
});

describeOnMinio('doctor on a MinIO of its own', {}, (server: () => OwnTestServer) => {
  // Nothing else can be checked where nothing can be created, so this is soon done.
  it.each([
    {
      actions: ['s3:ListBucket', 's3:PutObject', 's3:DeleteObject'],
      ids: ['may-list', 'may-create', 'may-delete'],
    },
    { actions: ['s3:GetObject'], ids: ['may-read'] },
  ])(
    'without $actions: exit 8, and the findings are $ids',
    async ({ actions, ids }) => {
      const { uri } = await server().newBucket();
      const Resource = ['arn:aws:s3:::*'];
      const credentials = await restrictedCredentials(server(), {
        Statement: [
          { Effect: 'Allow', Action: ['s3:*'], Resource },
          { Effect: 'Deny', Action: actions, Resource },
        ],
      });
      const { answer, ended } = await doctor(uri, credentialsEnv(credentials));
      expect(ended.code).toBe(8);
      expect(idsOf(answer, 'failed')).toEqual(ids);
      expect(answer).toMatchObject({ verdict: 'unknown', error: { code: 'Denied' } });
      const seen = answer.checks.filter(({ id }) => ids.includes(id)).map((check) => check.seen);
      expect(seen).toEqual(actions.map((action) => expect.stringContaining(`it needs ${action}: `)));
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'a rule that deletes checkpoints, and uploads that may not be cut off: safe, and each is told',
    async () => {
      const { uri, bucket: Bucket } = await server().newBucket();
      const client = await s3Client(server());
      const Rules = [
        { ID: 'old', Status: 'Enabled', Filter: { Prefix: '' }, Expiration: { Days: 30 } } as const,
      ];
      await client.send(
        new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules } }),
      );
      client.destroy();
      const Resource = ['arn:aws:s3:::*'];
      const Action = ['s3:AbortMultipartUpload', 's3:ListMultipartUploadParts'];
      const credentials = await restrictedCredentials(server(), {
        Statement: [
          { Effect: 'Allow', Action: ['s3:*'], Resource },
          { Effect: 'Deny', Action, Resource },
        ],
      });
      const findings = await findingsOf(uri, credentialsEnv(credentials));
      const degraded = findings.filter(({ status }) => status === 'degraded');
      expect(degraded.map(({ id }) => id)).toEqual(['abort', 'resume', 'lifecycle']);
      for (const [index, action] of Action.entries())
        expect(degraded[index]?.seen).toContain(`it needs ${action}: `);
      expect(degraded[2]?.seen).toMatch(/^rule "old" deletes objects 30 days after they are /);
      const others = findings.filter((finding) => !degraded.includes(finding));
      expect(others.filter(({ status }) => status !== 'ok')).toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );

  it('a wrong secret is a refusal everywhere, and leaves nothing: exit 8', async () => {
    const { uri, env } = await server().newBucket();
    const { answer, ended } = await doctor(uri, { ...env, AWS_SECRET_ACCESS_KEY: 'wrong-secret-canary' });
    expect(ended.code).toBe(8);
    expect(idsOf(answer, 'failed')).toEqual(['may-list', 'may-create', 'may-delete']);
    expect(ended.stdout + ended.stderr).not.toContain('canary');
  });

  it('a bucket that is not there: exit 6; a server that is not there: exit 75', async () => {
    const { uri, env, bucket } = await server().newBucket();
    const noBucket = await doctor(uri.replace(bucket, 'holdfast-no-such-bucket'), env);
    expect(noBucket.ended.code).toBe(6);
    expect(idsOf(noBucket.answer, 'failed')).toEqual(['reachable']);
    const nobody = encodeURIComponent('http://127.0.0.1:1');
    const noServer = await doctor(uri.replace(/endpoint=[^&]*/, `endpoint=${nobody}`), env);
    expect(noServer.ended.code).toBe(75);
    expect(noServer.ended.stderr).toContain('ECONNREFUSED');
  });
});

describe('doctor on a store that must not be trusted', () => {
  describeOnVersitygw('versitygw', (server) => {
    it(
      'loses the race: exit 2, and says that two writers could both commit',
      async () => {
        const { uri, env } = await server().newBucket();
        const { answer, ended } = await doctor(uri, env);
        expect(answer.checks.find(({ id }) => id === 'race')).toMatchObject({
          status: 'failed',
          seen: expect.stringMatching(/^in round \d+, \d+ of \d+ creates of one key succeeded$/),
        });
        expect(answer).toMatchObject({ verdict: 'unsafe', error: { code: 'Unsupported' } });
        expect(ended.code).toBe(2);
        expect(ended.stderr).toContain('is not safe for checkpoints: two writers could both commit');
      },
      TEST_TIMEOUT_MS,
    );
  });
});
