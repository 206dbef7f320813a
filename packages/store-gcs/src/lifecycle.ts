/** Effects of a bucket's lifecycle rules on the objects of one store. */

import { fact } from '@holdfast/cloud-http';
import type { StoreFact } from '@holdfast/core/contract';
import type { GcsConfig } from './config.ts';

interface Rule {
  readonly action?: { readonly type?: string; readonly storageClass?: string };
  readonly condition?: Readonly<Record<string, unknown>>;
}

/** A rule with one of these conditions does not affect live objects. */
const NONCURRENT_CONDITIONS = ['numNewerVersions', 'daysSinceNoncurrentTime', 'noncurrentTimeBefore'];

export function lifecycleFacts(rules: readonly unknown[], config: GcsConfig): StoreFact[] {
  const ours = rules.map((rule) => rule as Rule).filter((rule) => mayMatch(rule, config.root));
  return [dangerFact(ours, rules.length), leftoverFact(ours, config)];
}

function dangerFact(rules: readonly Rule[], ruleCount: number): StoreFact {
  const [id, title] = ['lifecycle', 'lifecycle'];
  const deletes = rules.filter((rule) => isDelete(rule) && concernsLive(rule) && !isOfOwn(rule));
  if (deletes.length === 0)
    return fact(id, title, ruleCount === 0 ? 'no rules' : 'no rule deletes live objects');
  return fact(
    id,
    title,
    deletes.map((rule) => `a rule deletes live objects: ${told(rule)}`).join('; '),
    'checkpoints lose objects that they need, and can no longer be restored',
    'remove such rules for this prefix: only Holdfast knows what a checkpoint needs',
  );
}

/** Reports rules for what a killed process leaves of its uploads. */
function leftoverFact(rules: readonly Rule[], { uploads, root }: GcsConfig): StoreFact {
  const [id, title] = ['abandoned-uploads', 'abandoned uploads'];
  if (uploads === 'single') return fact(id, title, 'none are possible');
  const isParts = uploads === 'multipart';
  const isCleared = rules.some((rule) =>
    isParts ? rule.action?.type === 'AbortIncompleteMultipartUpload' : isDelete(rule) && isOfOwn(rule),
  );
  if (isCleared) return fact(id, title, 'a rule removes them');
  const action = isParts
    ? '{"action":{"type":"AbortIncompleteMultipartUpload"},"condition":{"age":7}}'
    : `{"action":{"type":"Delete"},"condition":{"age":7,"matchesPrefix":["${root}.holdfast-"]}}`;
  return fact(
    id,
    title,
    'no rule removes them',
    'the uploaded parts of a killed process are billed until they are removed',
    `add a lifecycle rule, with more days than your longest save takes: ${action}`,
  );
}

/** Describes the rule that deletes noncurrent versions. */
export function noncurrentRule(rules: readonly unknown[], root: string): string | undefined {
  const rule = rules
    .map((found) => found as Rule)
    .find((found) => isDelete(found) && !concernsLive(found) && mayMatch(found, root));
  return rule === undefined ? undefined : `a rule removes noncurrent versions: ${told(rule)}`;
}

function isDelete({ action }: Rule): boolean {
  return action?.type === 'Delete';
}

function concernsLive({ condition = {} }: Rule): boolean {
  return condition.isLive !== false && !NONCURRENT_CONDITIONS.some((name) => name in condition);
}

/** True if the rule matches only the store's own objects: parts of uploads. */
function isOfOwn(rule: Rule): boolean {
  const prefixes = prefixesOf(rule);
  return prefixes.length > 0 && prefixes.every((prefix) => /(^|\/)\.holdfast-[^/]*\/?$/.test(prefix));
}

function mayMatch(rule: Rule, root: string): boolean {
  const prefixes = prefixesOf(rule);
  return (
    prefixes.length === 0 || prefixes.some((prefix) => prefix.startsWith(root) || root.startsWith(prefix))
  );
}

function prefixesOf({ condition = {} }: Rule): string[] {
  const { matchesPrefix } = condition;
  return Array.isArray(matchesPrefix) ? matchesPrefix.map(String) : [];
}

function told({ condition = {} }: Rule): string {
  const parts = Object.entries(condition).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return parts.length === 0 ? 'without a condition' : parts.join(', ');
}
