/**
 * The last chapter exports the best of all checkpoints to one file and checks that it predicts
 * exactly as the saved model did.
 */

import { bestCheckpoint, exportSafetensors, openCheckpointShards } from '@holdfast/elasticdl';
import { expectThat } from './checks.ts';
import { heldOut } from './clicks.ts';
import { evaluate } from './evaluation.ts';
import { openExported } from './exported.ts';
import { chapter, found, measure, size, table } from './screen.ts';
import { SharedModel } from './shared-model.ts';
import type { Story } from './story.ts';

const SHOWN_COUNT = 4;

export async function exportBest(story: Story, path: string): Promise<void> {
  chapter(
    'The checkpoint with the best AUC becomes one file',
    'The shares of all servers are merged; the accumulators of the optimizer stay behind. The file is',
    'read back, and asked about the clicks on which the servers were judged when they saved it.',
  );
  const best = await bestCheckpoint(story.reader, { metric: 'auc', mode: 'max' });
  const checkpoint = best && (await story.reader.get(best.version));
  const live = story.evaluations.get(Number(best?.version));
  expectThat(checkpoint !== null && live !== undefined, `there is no best checkpoint, or none of this job`);
  await using shards = await openCheckpointShards(checkpoint);
  const { sizeBytes } = await exportSafetensors(shards, path);
  found(`version ${checkpoint.version} has the best AUC, ${measure(live.auc)}: ${size(sizeBytes)}, ${path}`);

  const batch = heldOut(story.setup.shape);
  const model = new SharedModel([await openExported(path)]);
  const exported = evaluate(await model.predict(batch), batch);
  const predictions = Array.from(
    exported.predictions,
    (predicted, i) => [live.predictions[i], predicted] as const,
  );
  expectThat(
    predictions.every(([before, after]) => before === after) && exported.auc === best?.metrics['auc'],
    `the exported model has an AUC of ${exported.auc}, the live one had ${live.auc}`,
  );
  table(
    ['user', 'item', 'hour', 'clicked', 'live model', 'exported file'],
    predictions
      .slice(0, SHOWN_COUNT)
      .map(([before, after], i) => [
        ...batch.ids.map((ids) => String(ids[i])),
        String(batch.clicked[i]),
        measure(before ?? Number.NaN),
        measure(after),
      ]),
  );
  const count = predictions.length.toLocaleString('en');
  found(`all ${count} predictions of the file are those of the live model, to the last bit; so is the AUC`);
  story.rows.push([
    `${checkpoint.version}`,
    '–',
    size(sizeBytes),
    measure(exported.loss),
    measure(exported.auc),
    'exported',
  ]);
}
