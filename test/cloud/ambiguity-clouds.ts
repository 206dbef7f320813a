/**
 * The stores of the ambiguity matrix: every server of a cloud, and a GCS in this process for
 * uploads in parts, which no emulator supports.
 */

import { afterAll, beforeAll, describe } from 'vitest';
import { refusal as azureRefusal } from '../azure/scripted-azure.ts';
import { BUCKET, FakeGcs, refusal as gcsRefusal } from '../gcs/fake-gcs.ts';
import { xmlRefusal as gcsXmlRefusal } from '../gcs/fake-uploads.ts';
import { refusal as s3Refusal } from '../s3/scripted-s3.ts';
import {
  type Answer,
  type ScriptedServer,
  type SeenRequest,
  startScriptedServer,
} from '../scripted/scripted-server.ts';
import { AZURE, type Cloud, GCS, S3 } from '../servers/clouds.ts';
import type { TestServer } from '../servers/test-bucket.ts';
import type { SeenBucket } from './run-view.ts';

export interface AmbiguousCloud extends Pick<Cloud, 'suite' | 'title'> {
  describeOnOwn(name: string, body: (server: () => TestServer) => void): void;
  openBucket(...bucket: Parameters<Cloud['openBucket']>): Promise<SeenBucket>;
  /** The provider's answer that it is temporarily unavailable. */
  refusal(status: 500 | 503, request: SeenRequest): Answer;
  /** Other requests than those of uploads in parts are the same on another cloud of the matrix. */
  readonly isAboutParts?: true;
  /** Names the subject of a request if path and query do not contain it. */
  subjectOf(request: SeenRequest): string;
}

const inPath = () => '';

export const AMBIGUOUS_S3: AmbiguousCloud = {
  ...S3,
  refusal: (status) => s3Refusal(status, status === 500 ? 'InternalError' : 'SlowDown'),
  subjectOf: inPath,
};

/** Assembles uploads from objects. */
export const AMBIGUOUS_GCS: AmbiguousCloud = { ...GCS, refusal: refusalOfGcs, subjectOf: nameInMetadata };

/** Uploads in parts. */
export const AMBIGUOUS_GCS_IN_PARTS = gcsInProcess();

export const AMBIGUOUS_AZURE: AmbiguousCloud = {
  ...AZURE,
  refusal: (status) => azureRefusal(status, status === 500 ? 'InternalError' : 'ServerBusy'),
  subjectOf: inPath,
};

function refusalOfGcs(status: 500 | 503, { path }: SeenRequest): Answer {
  if (!/^\/(storage|upload|download)\//.test(path))
    return gcsXmlRefusal(status, status === 500 ? 'InternalError' : 'ServiceUnavailable');
  return gcsRefusal(status, 'backendError');
}

/** A name that is not in the path is in the first part of the body. */
function nameInMetadata({ query, body }: SeenRequest): string {
  if (query.get('uploadType') !== 'multipart') return '';
  const [, name = ''] = /"name":"([^"]*)"/.exec(body.toString('latin1', 0, 1024)) ?? [];
  return ` ${name}`;
}

function gcsInProcess(): AmbiguousCloud {
  let fake = new FakeGcs();
  return {
    suite: 'gcs',
    title: 'GCS with uploads in parts',
    isAboutParts: true,
    refusal: refusalOfGcs,
    subjectOf: nameInMetadata,
    describeOnOwn(name, body) {
      describe(name, () => {
        let server: (ScriptedServer & { stop(): Promise<void> }) | undefined;
        beforeAll(async () => {
          fake = new FakeGcs();
          server = await startScriptedServer((request) => fake.answer(request), { keepsRequests: false });
        });
        afterAll(() => server?.stop());
        body(() => ({
          newBucket: async () => {
            const endpoint = server?.endpoint;
            const uri = `gs://${BUCKET}/run?${new URLSearchParams({ endpoint: endpoint ?? '', uploads: 'multipart' })}`;
            return { uri, env: {}, bucket: BUCKET, endpoint };
          },
        }));
      });
    },
    openBucket: async () => ({
      list: async (prefix) => [...fake.objects.keys()].filter((name) => name.startsWith(prefix)).sort(),
      read: async (name) => {
        const object = fake.objects.get(name);
        if (object === undefined) throw new Error(`${name} is not there`);
        return object.bytes;
      },
      close: () => undefined,
    }),
  };
}
