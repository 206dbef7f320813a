/** The rules by which a checkpoint counts as complete, as people write them. */

import { BadValue, durationBetween, parseWhole } from '../values.ts';

export type Rule =
  | { readonly kind: 'rename' }
  | { readonly kind: 'metadata' }
  | { readonly kind: 'hf'; readonly rankCount: number }
  | { readonly kind: 'tracker'; readonly quietMs: number }
  | { readonly kind: 'quiet'; readonly quietMs: number };

const FORMS = 'rename, metadata, hf, hf:8, tracker, tracker:10s or quiet:30s';
/** DeepSpeed and Megatron name a checkpoint while other ranks may still write. */
const TRACKER_QUIET_MS = 10_000;
const QUIET_MS = { min: 1000, max: 24 * 3600_000 };
const RANKS_MAX = 1_000_000;
export function parseRule(text: string): Rule {
  const [kind = '', given] = text.split(/:(.*)/s);
  const quietOf = () => durationBetween(QUIET_MS.min, QUIET_MS.max)(given as string);
  if ((kind === 'rename' || kind === 'metadata') && given === undefined) return { kind };
  if (kind === 'hf') return { kind, rankCount: given === undefined ? 1 : parseWhole(1, RANKS_MAX)(given) };
  if (kind === 'tracker') return { kind, quietMs: given === undefined ? TRACKER_QUIET_MS : quietOf() };
  if (kind === 'quiet' && given !== undefined) return { kind, quietMs: quietOf() };
  throw new BadValue(`"${text}" is not known; write ${FORMS}`);
}
