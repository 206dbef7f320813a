import { CheckpointError } from '@holdfast/core/contract';
import { contextOf, nameOf, type StoreSubject } from './errors.ts';

/**
 * No credentials were available, so nothing was sent to the store. The message never contains a
 * secret.
 */
export class CredentialsError extends Error {
  readonly code: 'Denied' | 'InvalidConfig' | 'Unavailable';

  constructor(code: CredentialsError['code'], message: string, cause?: Error) {
    super(message, cause && { cause });
    this.name = 'CredentialsError';
    this.code = code;
  }
}

/**
 * Converts it to a `CheckpointError`. `action`: "read", "create". The message names the subject
 * after it.
 */
export function credentialsFailure(
  error: CredentialsError,
  action: string,
  subject: StoreSubject,
): CheckpointError {
  return new CheckpointError(error.code, `cannot ${action} ${nameOf(subject)}: ${error.message}`, {
    context: contextOf(subject),
    cause: error.cause ?? error,
  });
}
