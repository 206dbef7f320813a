/** What the lifecycle rules of a bucket do to the objects of one store. */

import type { StoreFact } from '@holdfast/core/contract';
import type { GcsConfig } from './config.ts';

interface Rule {
  readonly action?: { readonly type?: string; readonly storageClass?: string };
  readonly condition?: Readonly<Record<string, unknown>>;
}

/** A rule with one of them leaves what is live alone. */
const NONCURRENT_CONDITIONS = ['numNewerVersions', 'daysSinceNoncurrentTime', 'noncurrentTimeBefore'];

/** What remains of a process that was killed is to go, and nothing else. */
export function lifecycleFacts(rules: readonly unknown[], config: GcsConfig): StoreFact[] {
  const ours = rules.map((rule) => rule as Rule).filter((rule) => mayMatch(rule, config.root));
  return [ageFact(ours), leftoverFact(ours, config)];
}

function ageFact(rules: readonly Rule[]): StoreFact {
  const deletes = rules.filter(
    (rule) => rule.action?.type === 'Delete' && concernsLive(rule) && !isOfOwn(rule),
  );
  const base = { id: 'lifecycle', title: 'lifecycle' };
  if (deletes.length === 0)
    return { ...base, seen: rules.length === 0 ? 'no rules' : 'no rule deletes what is live' };
  return {
    ...base,
    seen: `${deletes.length === 1 ? 'a rule deletes' : `${deletes.length} rules delete`} live objects: ${deletes.map(told).join('; ')}`,
    concern: {
      meaning: 'checkpoints lose objects that they need, and cannot be restored any more',
      advice: 'remove such rules for this prefix; `holdfast prune` removes checkpoints whole',
    },
  };
}

function leftoverFact(rules: readonly Rule[], { uploads, root }: GcsConfig): StoreFact {
  const base = { id: 'abandoned-uploads', title: 'abandoned uploads' };
  if (uploads === 'single') return { ...base, seen: 'none are possible' };
  const isParts = uploads === 'multipart';
  const isCleared = rules.some((rule) =>
    isParts
      ? rule.action?.type === 'AbortIncompleteMultipartUpload'
      : rule.action?.type === 'Delete' && isOfOwn(rule),
  );
  if (isCleared) return { ...base, seen: 'a rule removes them' };
  const action = isParts
    ? '{"action":{"type":"AbortIncompleteMultipartUpload"},"condition":{"age":7}}'
    : `{"action":{"type":"Delete"},"condition":{"age":7,"matchesPrefix":["${root}.holdfast-"]}}`;
  return {
    ...base,
    seen: 'no rule removes them',
    concern: {
      meaning: 'what a killed process leaves of an upload is billed until somebody removes it',
      advice: `add a lifecycle rule, with more days than your longest save takes: ${action}`,
    },
  };
}

function concernsLive({ condition = {} }: Rule): boolean {
  return condition.isLive !== false && !NONCURRENT_CONDITIONS.some((name) => name in condition);
}

/** Only of what the store keeps for itself: parts of uploads. */
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
