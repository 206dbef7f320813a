import { CheckpointError } from '@holdfast/core/contract';
import { contextOf, nameOf, type StoreSubject } from './errors.ts';

/**
 * No credentials could be had, so nothing was sent to the store. Its message never holds a secret.
 */
export class CredentialsError extends Error {
  readonly code: 'Denied' | 'InvalidConfig' | 'Unavailable';

  constructor(code: CredentialsError['code'], message: string, cause?: Error) {
    super(message, cause && { cause });
    this.name = 'CredentialsError';
    this.code = code;
  }
}

/** As a `CheckpointError`. `action`: "read", "create"; the subject follows it in the message. */
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
