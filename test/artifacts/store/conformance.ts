/**
 * The conformance checks on that store, with Node's test runner. It keeps objects in memory,
 * because a disk is slower.
 */

import { after, before, describe, test } from 'node:test';
import { crc32c } from '@holdfast/core';
import { MemoryStore, memoryBucket } from '@holdfast/core/store';
import { registerConformance, type TestApi } from '@holdfast/testkit';
import { ShelfStore } from './shelf-store.ts';

const api: TestApi = { describe, test, beforeAll: before, afterAll: after };

registerConformance(api, 'shelf', () => ({
  open: async () => new ShelfStore('shelf:///memory', new MemoryStore(memoryBucket('shelf', { crc32c }))),
}));
