/** Effects of a bucket's lifecycle rules on the objects below one prefix. Pure. */

import { daysText, elementsOf, fact, textOf } from '@holdfast/cloud-http';
import type { StoreFact } from '@holdfast/core/contract';
import { countOf } from './answers.ts';

/** What a rule does to objects, and which it matches. */
export interface LifecycleRule {
  readonly id: string;
  readonly isEnabled: boolean;
  readonly prefix: string;
  /** It matches only objects with certain tags. */
  readonly isOfTags: boolean;
  readonly expirationDays: number | undefined;
  /** ISO 8601. */
  readonly expirationDate: string | undefined;
  readonly transitions: readonly { readonly storageClass: string; readonly days: number | undefined }[];
  readonly noncurrentDays: number | undefined;
  readonly abortDays: number | undefined;
}

/** The rules of a bucket, from S3's answer. */
export function lifecycleRules(xml: string): LifecycleRule[] {
  return Array.from(elementsOf(xml, 'Rule'), (rule) => {
    const inside = (name: string) => elementsOf(rule, name).next().value ?? '';
    const expiration = inside('Expiration');
    return {
      id: textOf(rule, 'ID') ?? '',
      isEnabled: textOf(rule, 'Status') === 'Enabled',
      // In the filter, or directly in the rule in the old form.
      prefix: textOf(rule, 'Prefix') ?? '',
      isOfTags: /<Tag[\s>]/.test(rule),
      expirationDays: countOf(expiration, 'Days'),
      expirationDate: textOf(expiration, 'Date'),
      transitions: Array.from(elementsOf(rule, 'Transition'), (transition) => ({
        storageClass: textOf(transition, 'StorageClass') ?? '',
        days: countOf(transition, 'Days'),
      })),
      noncurrentDays: countOf(inside('NoncurrentVersionExpiration'), 'NoncurrentDays'),
      abortDays: countOf(inside('AbortIncompleteMultipartUpload'), 'DaysAfterInitiation'),
    };
  });
}

/**
 * Answer about a setting: its value, `undefined` if it is not set, or the reason why it is unknown.
 */
export type SettingAnswer<T> = { readonly value: T | undefined } | { readonly untold: string };

/** Storage classes whose objects cannot be read at once. */
const ARCHIVES: readonly string[] = ['GLACIER', 'DEEP_ARCHIVE'];

interface Surroundings {
  /** The prefix of the store: empty, or ends in '/'. */
  readonly root: string;
  readonly isMinio: boolean;
}

export function lifecycleFacts(
  rules: SettingAnswer<readonly LifecycleRule[]>,
  { root, isMinio }: Surroundings,
): StoreFact[] {
  if ('untold' in rules)
    return [fact('lifecycle', 'lifecycle', rules.untold), leftoverFact(undefined, rules.untold, isMinio)];
  const ours = (rules.value ?? []).filter((rule) => concerns(rule, root));
  return [dangerFact(ours, rules.value?.length ?? 0), leftoverFact(ours, '', isMinio)];
}

/** Reports rules that delete or archive live objects. */
function dangerFact(ours: readonly LifecycleRule[], ruleCount: number): StoreFact {
  const deletes = ours.map(deletion).filter((told) => told !== undefined);
  const archives = ours.map(archival).filter((told) => told !== undefined);
  const [id, title] = ['lifecycle', 'lifecycle'];
  const seen = [...deletes, ...archives].join('; ');
  if (deletes.length > 0)
    return fact(
      id,
      title,
      seen,
      'checkpoints lose objects that they need, and can no longer be restored',
      'remove such rules for this prefix: only Holdfast knows what a checkpoint needs',
    );
  if (archives.length > 0)
    return fact(
      id,
      title,
      seen,
      'an archived object cannot be read at once: a restore ends with Unsupported',
      'remove such rules for this prefix; GLACIER_IR and STANDARD_IA can be read at once',
    );
  return fact(id, title, ruleCount === 0 ? 'no rules' : 'no rule removes or archives live objects');
}

function deletion(rule: LifecycleRule): string | undefined {
  const { expirationDays: days, expirationDate: date } = rule;
  if (days !== undefined) return `${nameOf(rule)} deletes objects ${daysText(days)} after they are written`;
  if (date !== undefined) return `${nameOf(rule)} deletes objects from ${date.slice(0, 10)} on`;
  return undefined;
}

function archival(rule: LifecycleRule): string | undefined {
  const to = rule.transitions.find(({ storageClass }) => ARCHIVES.includes(storageClass));
  if (to === undefined) return undefined;
  const after = to.days === undefined ? '' : ` ${daysText(to.days)} after they are written`;
  return `${nameOf(rule)} moves objects to ${to.storageClass}${after}`;
}

/** Reports rules for parts of incomplete uploads. `ours`: `undefined` if the rules are unknown. */
function leftoverFact(
  ours: readonly LifecycleRule[] | undefined,
  untold: string,
  isMinio: boolean,
): StoreFact {
  const [id, title] = ['abandoned-uploads', 'abandoned uploads'];
  const days = ours?.map(({ abortDays }) => abortDays).find((found) => found !== undefined);
  if (days !== undefined) return fact(id, title, `a rule removes them after ${daysText(days)}`);
  if (isMinio) return fact(id, title, 'MinIO removes them by itself, after a day by default');
  if (ours === undefined) return fact(id, title, untold);
  return fact(
    id,
    title,
    'no rule removes them',
    'the parts of a killed process are not listed, and are billed until they are removed',
    'add a lifecycle rule for this prefix with AbortIncompleteMultipartUpload, after more days than your longest save takes',
  );
}

/** Describes the rule that deletes noncurrent versions. */
export function noncurrentRule(rules: readonly LifecycleRule[], root: string): string | undefined {
  const days = rules
    .filter((rule) => concerns(rule, root))
    .map(({ noncurrentDays }) => noncurrentDays)
    .find((found) => found !== undefined);
  return days === undefined ? undefined : `a rule removes noncurrent versions after ${daysText(days)}`;
}

/** True if the rule may match some of our objects, which have no tags. */
function concerns({ isEnabled, isOfTags, prefix }: LifecycleRule, root: string): boolean {
  return isEnabled && !isOfTags && (prefix.startsWith(root) || root.startsWith(prefix));
}

function nameOf({ id }: LifecycleRule): string {
  return id ? `rule "${id}"` : 'a rule';
}
