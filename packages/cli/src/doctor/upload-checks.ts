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
    advice: 'use a store whose multipart uploads take parts in any order and show nothing until completed',
    whenDenied: 'large files cannot be saved',
    run: multipart,
  },
  {
    id: 'checksums',
    title: 'checksums',
    needs: ['may-create'],
    meaning: 'bytes damaged on the way to the store are noticed only when they are read',
    advice: 'use TLS to the store, and run `holdfast verify` after important saves',
    isAboutComfort: true,
    run: checksums,
  },
  {
    id: 'abort',
    title: 'abort an upload',
    needs: ['multipart'],
    meaning: 'interrupted uploads stay in the store, unlisted, and are billed',
    advice: 'add a rule to the bucket that ends incomplete uploads after some days',
    whenDenied: 'interrupted uploads stay in the store, unlisted, and are billed',
    isAboutComfort: true,
    run: abort,
  },
  {
    id: 'resume',
    title: 'resume an upload',
    needs: ['multipart'],
    meaning: 'no other process can resume or end an interrupted upload',
    advice: 'add a rule to the bucket that ends incomplete uploads after some days',
    whenDenied: 'no other process can resume or end an interrupted upload',
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
  if (!capabilities.verifiesChecksums) return { seen: 'not stored here; checked when the object is read' };
  await tryWrongChecksums(probe);
  return { seen: 'wrong ones are refused, for objects and parts' };
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
