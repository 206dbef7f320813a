/** Checks uploads of large files in parts. */

import { tryToAbort, tryToResume, tryToUpload, tryWrongChecksums } from '@holdfast/testkit';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

export const uploadChecks: readonly Check[] = [
  {
    id: 'multipart',
    title: 'multipart upload',
    needs: ['may-create', 'may-read'],
    meaning: 'large files cannot be saved, or would come back damaged',
    advice: 'use a store whose multipart uploads take parts in any order and show nothing before the end',
    whenDenied: 'large files cannot be saved',
    run: multipart,
  },
  {
    id: 'checksums',
    title: 'checksums',
    needs: ['may-create'],
    meaning: 'bytes damaged on their way to the store are noticed only when they are read again',
    advice: 'use TLS to the store, and `holdfast verify` after a save that matters',
    isAboutComfort: true,
    run: checksums,
  },
  {
    id: 'abort',
    title: 'abort an upload',
    needs: ['multipart'],
    meaning: 'uploads that are cut off stay in the store, unseen, and cost what they hold',
    advice: 'set a rule of the bucket that ends incomplete uploads after some days',
    whenDenied: 'uploads that are cut off stay in the store, unseen, and cost what they hold',
    isAboutComfort: true,
    run: abort,
  },
  {
    id: 'resume',
    title: 'resume an upload',
    needs: ['multipart'],
    meaning: 'an upload that was cut off can be neither taken up nor ended by another process',
    advice: 'set a rule of the bucket that ends incomplete uploads after some days',
    whenDenied: 'an upload that was cut off can be neither taken up nor ended by another process',
    isAboutComfort: true,
    run: resume,
  },
];

async function multipart(probe: Probe): Promise<Outcome> {
  await tryToUpload(probe);
  return { seen: '3 parts out of order, visible only when complete' };
}

async function checksums(probe: Probe): Promise<Outcome> {
  const { capabilities } = await probe.client();
  if (!capabilities.verifiesChecksums) return { seen: 'not kept by this store; compared when it is read' };
  await tryWrongChecksums(probe);
  return { seen: 'wrong ones are refused, of objects and of parts' };
}

async function abort(probe: Probe): Promise<Outcome> {
  await tryToAbort(probe);
  return { seen: 'an aborted upload is gone' };
}

async function resume(probe: Probe): Promise<Outcome> {
  const { capabilities } = await probe.client();
  if (!capabilities.resumesUploads) return { seen: 'not in this store, which removes them with time' };
  await tryToResume(probe);
  return { seen: 'another client sends the rest and completes' };
}
