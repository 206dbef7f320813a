/** How a step, a state or a coordinator ends what it does. Any other error is this worker's last. */

/** It may go well the next time: the state goes back to its last snapshot, and the workers meet again. */
export class RecoverableError extends Error {
  override readonly name = 'RecoverableError';
}

/** Nothing helps: this worker ends, though the error might look like one that passes. */
export class NonRetryableException extends Error {
  override readonly name = 'NonRetryableException';
}

/** Training is over for this worker, and nothing is wrong. */
export class StopException extends Error {
  override readonly name = 'StopException';
}

/** From a step: there is no data left. */
export class StopIteration extends Error {
  override readonly name = 'StopIteration';
}
