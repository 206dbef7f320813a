/** A trainer as a process: joins, saves as its argument says, prints how far, and stays. */

import process from 'node:process';
import { linuxProcesses, processText } from '@holdfast/local-files';
import { AgentClient } from './agent-client.ts';

export interface TrainerOrders {
  readonly socket: string;
  readonly uri: string;
  readonly count: number;
  readonly saves: readonly {
    readonly version: number;
    readonly isSealed: boolean;
    readonly files: Readonly<Record<string, number>>;
    /** Waits for this before the next save. */
    readonly until: 'open' | 'staged' | 'committed';
  }[];
}

/** The bytes of a file of this size. */
export function bytesOf(version: number, sizeBytes: number): Buffer {
  return Buffer.alloc(sizeBytes, version);
}

if (import.meta.main) {
  const { socket, uri, count, saves } = JSON.parse(process.argv[2] as string) as TrainerOrders;
  const identity = await linuxProcesses().self();
  const trainer = await new AgentClient(socket).trainer(uri, {
    count,
    ...(identity && { process: processText(identity) }),
  });
  await trainer.listen();
  for (const { version, isSealed, files, until } of saves) {
    const staged = Object.entries(files).map(([name, size]) => trainer.staged(name, bytesOf(version, size)));
    const { body } = await trainer.begin(version, { files: staged, sealed: isSealed });
    if (until === 'committed') await trainer.ended(body.saveId as string);
    console.log(`${until} ${version}`);
  }
  console.log('done');
}
