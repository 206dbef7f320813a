import { readFileSync } from 'node:fs';
import type { LifecycleRule as AwsRule } from '@aws-sdk/client-s3';
import type { StoreFact } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { type LifecycleRule, lifecycleFacts, lifecycleRules, noncurrentRule } from './lifecycle.ts';

/** A rule as AWS describes it, by way of S3's XML. */
function rule(rest: Partial<AwsRule>): LifecycleRule {
  const [parsed] = lifecycleRules(xmlOf({ Rules: [{ Status: 'Enabled', ID: 'r1', ...rest }] }));
  return parsed as LifecycleRule;
}

/** In a list, each item is an element with the name in the singular. */
function xmlOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .flatMap(([name, inner]) =>
      Array.isArray(inner) ? inner.map((each) => [name.slice(0, -1), each]) : [[name, inner]],
    )
    .map(([name, inner]) => `<${name}>${xmlOf(inner)}</${name}>`)
    .join('');
}

const WEEK = { Expiration: { Days: 7 } };

function facts(rules: LifecycleRule[], { root = 'runs/gpt/', isMinio = false } = {}) {
  const found = lifecycleFacts({ value: rules }, { root, isMinio });
  const of = (id: string) => found.find((fact) => fact.id === id) as StoreFact;
  return { lifecycle: of('lifecycle'), leftovers: of('abandoned-uploads') };
}

describe('rules that delete', () => {
  it.each<[string, Partial<AwsRule>]>([
    ['without a filter', {}],
    ['with an empty prefix', { Filter: { Prefix: '' } }],
    ['of a prefix that ours begins with', { Filter: { Prefix: 'runs/' } }],
    ['of a prefix that only begins like ours', { Filter: { Prefix: 'runs/g' } }],
    ['of a part of ours', { Filter: { Prefix: 'runs/gpt/data/' } }],
    ['in the old form', { Prefix: 'runs/' }],
    ['of a prefix and a size', { Filter: { And: { Prefix: 'runs/', ObjectSizeGreaterThan: 100 } } }],
  ])('%s: a warning', (_, rest) => {
    const { lifecycle } = facts([rule({ ...WEEK, ...rest })]);
    expect(lifecycle.seen).toBe('rule "r1" deletes objects 7 days after they are written');
    expect(lifecycle.concern?.meaning).toContain('no longer be restored');
  });

  it.each<[string, Partial<AwsRule>]>([
    ['of another prefix', { ...WEEK, Filter: { Prefix: 'logs/' } }],
    ['of a prefix that is longer than ours by a name', { ...WEEK, Filter: { Prefix: 'runs/gpt-2/' } }],
    ['of a tag', { ...WEEK, Filter: { Tag: { Key: 'a', Value: 'b' } } }],
    ['of a prefix with tags', { ...WEEK, Filter: { And: { Prefix: '', Tags: [{ Key: 'a', Value: 'b' }] } } }],
    ['that is switched off', { ...WEEK, Status: 'Disabled' }],
    ['of delete markers alone', { Expiration: { ExpiredObjectDeleteMarker: true } }],
    ['of noncurrent versions', { NoncurrentVersionExpiration: { NoncurrentDays: 3 } }],
  ])('%s: none', (_, rest) => {
    const { lifecycle } = facts([rule(rest)]);
    expect(lifecycle).toEqual({
      id: 'lifecycle',
      title: 'lifecycle',
      seen: 'no rule removes or archives live objects',
    });
  });

  it('on a date; every rule counts for a store at the root', () => {
    const { lifecycle } = facts(
      [rule({ Expiration: { Date: new Date('2027-01-01') }, Filter: { Prefix: 'logs/' }, ID: '' })],
      { root: '' },
    );
    expect(lifecycle.seen).toBe('a rule deletes objects from 2027-01-01 on');
    expect(lifecycle.concern).toBeDefined();
  });
});

describe('rules that archive', () => {
  it.each([
    ['GLACIER', true],
    ['DEEP_ARCHIVE', true],
    ['GLACIER_IR', false],
    ['STANDARD_IA', false],
  ] as const)('to %s: a warning is %s', (StorageClass, isWarned) => {
    const { lifecycle } = facts([rule({ Transitions: [{ Days: 1, StorageClass }] })]);
    expect(lifecycle.concern !== undefined).toBe(isWarned);
    if (isWarned)
      expect(lifecycle.seen).toBe(`rule "r1" moves objects to ${StorageClass} 1 day after they are written`);
  });
});

describe('uploads that are left behind', () => {
  it('a rule removes them', () => {
    const abort = { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } };
    const { leftovers } = facts([rule(abort)]);
    expect(leftovers).toEqual({
      id: 'abandoned-uploads',
      title: 'abandoned uploads',
      seen: 'a rule removes them after 7 days',
    });
  });

  it('none does: a warning says which to add; MinIO needs none', () => {
    const { leftovers } = facts([]);
    expect(leftovers.concern?.advice).toContain('AbortIncompleteMultipartUpload');
    expect(facts([], { isMinio: true }).leftovers.concern).toBeUndefined();
  });

  it('rules that are not told are no warning', () => {
    const untold = 'not told without s3:GetLifecycleConfiguration';
    expect(lifecycleFacts({ untold }, { root: '', isMinio: false })).toEqual([
      { id: 'lifecycle', title: 'lifecycle', seen: untold },
      { id: 'abandoned-uploads', title: 'abandoned uploads', seen: untold },
    ]);
  });
});

describe('noncurrent versions', () => {
  it('rules count for our prefix only', () => {
    const NoncurrentVersionExpiration = { NoncurrentDays: 1 };
    const ours = rule({ NoncurrentVersionExpiration, Filter: { Prefix: 'runs/' } });
    expect(noncurrentRule([ours], 'runs/gpt/')).toBe('a rule removes noncurrent versions after 1 day');
    expect(noncurrentRule([ours], 'other/')).toBeUndefined();
    expect(noncurrentRule([], '')).toBeUndefined();
  });
});

it('the rules that the manual says to add leave nothing to warn of', () => {
  const manual = readFileSync(new URL('../../../docs/stores/s3.md', import.meta.url), 'utf8');
  const [, json = ''] = /```json\n(\{\s+"Rules".*?)```/s.exec(manual) ?? [];
  const rules = lifecycleRules(xmlOf(JSON.parse(json)));
  const { lifecycle, leftovers } = facts(rules);
  expect([lifecycle.concern, leftovers.concern]).toEqual([undefined, undefined]);
  expect(leftovers.seen).toBe('a rule removes them after 7 days');
  expect(noncurrentRule(rules, 'runs/gpt/')).toBe('a rule removes noncurrent versions after 7 days');
});
