/** Bytes in memory, before they are sent and after they have come; all of it lies outside of what is measured. */

import { readFileSync } from 'node:fs';
import { job } from '../peers/driver.mjs';

/** The pattern again and again: what is to be sent. */
export function sourceMemory() {
  const pattern = readFileSync(job.patternPath);
  const memory = Buffer.allocUnsafeSlow(job.sizeBytes);
  for (let at = 0; at < memory.length; at += pattern.length) pattern.copy(memory, at);
  return memory;
}

/** Memory that has been touched, so that nobody pays for the first time. */
export function targetMemory() {
  return Buffer.allocUnsafeSlow(job.sizeBytes).fill(1);
}

export function assertArrived(bytes) {
  if (!bytes.equals(sourceMemory())) throw new Error('other bytes came back than were sent');
}
