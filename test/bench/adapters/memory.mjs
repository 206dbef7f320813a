/** Memory for the bytes before an upload and after a download. Preparing it is not measured. */

import { readFileSync } from 'node:fs';
import { job } from '../peers/driver.mjs';

/** The pattern repeated, as the bytes to send. */
export function sourceMemory() {
  const pattern = readFileSync(job.patternPath);
  const memory = Buffer.allocUnsafeSlow(job.sizeBytes);
  for (let at = 0; at < memory.length; at += pattern.length) pattern.copy(memory, at);
  return memory;
}

/** Memory that was written before, so that no client pays for the first access. */
export function targetMemory() {
  return Buffer.allocUnsafeSlow(job.sizeBytes).fill(1);
}

export function assertArrived(bytes) {
  if (!bytes.equals(sourceMemory())) throw new Error('other bytes came back than were sent');
}
