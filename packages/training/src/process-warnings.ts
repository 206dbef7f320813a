import { emitWarning } from 'node:process';
import type { Logger } from '@holdfast/core/contract';

/** What is worth a warning is Node's warning, on stderr unless the program decides otherwise; the rest is nowhere. */
export const processWarnings: Logger = {
  log: (level, message) => {
    if (level === 'warn') emitWarning(message, 'HoldfastTraining');
  },
};
