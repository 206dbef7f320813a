import { emitWarning } from 'node:process';
import type { Logger } from '@holdfast/core/contract';

/**
 * Warnings become Node's process warnings, on stderr unless the program handles them. Other levels
 * are dropped.
 */
export const processWarnings: Logger = {
  log: (level, message) => {
    if (level === 'warn') emitWarning(message, 'HoldfastTraining');
  },
};
