/** The story of one seed around the loss of a catalog; see losing.ts. */

import type { SeededRandom } from '@holdfast/testkit';
import { drawStory, type Story } from './story.ts';

export interface LosingStory extends Story {
  /** Versions of the original run, committed before anything goes wrong. */
  readonly oldVersions: readonly number[];
  /**
   * Versions that each of the old writers saves next. The second writer belongs to the next
   * attempt.
   */
  readonly oldWriters: readonly (readonly number[])[];
  readonly newWriters: readonly (readonly number[])[];
  readonly rebuilds: number;
  readonly collects: boolean;
  /** Latest step of the schedule at which the catalog is lost. */
  readonly lossAt: number;
  /**
   * The catalog is lost while an old writer sends its decision of this number, or the manifest
   * before it. Numbers start at 0; −1: the loss is at `lossAt`.
   */
  readonly lossAtCall: number;
  readonly lossAtManifest: boolean;
  /** Old writers pause from the loss until a rebuild has made its mark. */
  readonly waitsForMark: boolean;
  /** Paces between which a process changes. */
  readonly paces: readonly number[];
}

export function drawLosingStory(random: SeededRandom): LosingStory {
  const story = drawStory(random);
  const total = random.pick([0, 0, 0.02, 0.08]);
  const sum = Object.values(story.rates).reduce((all, rate) => all + rate, 0);
  const scale = sum === 0 ? 0 : total / sum;
  const oldVersions = random.pick([[1], [1, 2]]);
  const next = oldVersions.length + 1;
  return {
    ...story,
    attempts: [],
    isLarge: false,
    settings: { ...story.settings, ...random.pick([{}, {}, { entryCheckpointsMax: 2 }]) },
    rates: Object.fromEntries(Object.entries(story.rates).map(([name, rate]) => [name, rate * scale])),
    pressure: { time: random.pick([0, 0.002, 0.01]), landing: random.pick([0.01, 0.03, 0.1]) },
    oldVersions,
    oldWriters: random.pick([[], [[next, next + 1]], [[next, next + 1]], [[next, next + 1], [next + 2]]]),
    newWriters: random.pick([[[10, 11]], [[10, 11]], [[10], [12]]]),
    rebuilds: random.pick([2, 2, 2, 3]),
    collects: random.fraction() < 0.3,
    lossAt: random.pick([random.integer(45), 80]),
    lossAtCall: random.pick([-1, 0, 0, 1]),
    lossAtManifest: random.fraction() < 0.7,
    waitsForMark: random.fraction() < 0.5,
    paces: random.pick([
      [3, 1, 0.01],
      [1, 0.02, 0.02],
    ]),
  };
}
