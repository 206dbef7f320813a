/** Faults of a request or its reply between a healthy client and a healthy server. */

import type { Answer, Reply } from '../scripted/scripted-server.ts';

/** One request that meets the fault. */
export interface Hit {
  /** Lets the server carry out the request. Resolves to the answer. */
  deliver(): Promise<Answer>;
  /** The provider's answer that it is temporarily unavailable. */
  refusal(status: 500 | 503): Answer;
  /**
   * Puts the client's clock forward until the client gives up the request. Resolves when the client
   * has repeated it or no longer needs it.
   */
  outlast(): Promise<void>;
  /**
   * Delays the request until its client repeats it. It reaches the server before the repeat or
   * after it, and at the latest at the end.
   */
  linger(arrival: 'before' | 'after'): void;
}

export interface AmbiguityFault {
  readonly title: string;
  /** The server carries out the request before the client gets any answer. */
  readonly isCarriedOut: boolean;
  /** The fault also matters for a request that changes nothing. */
  readonly hitsReads: boolean;
  reply(hit: Hit): Promise<Reply>;
}

export const LOST_REPLY: AmbiguityFault = {
  title: 'it is carried out, and the connection ends before the reply',
  isCarriedOut: true,
  hitsReads: true,
  reply: async ({ deliver }) => {
    await deliver();
    return 'reset';
  },
};

export const LOST_REQUEST: AmbiguityFault = {
  title: 'it never arrives',
  isCarriedOut: false,
  hitsReads: false,
  reply: async () => 'reset',
};

export const LATE_REPLY: AmbiguityFault = {
  title: 'it is carried out, and the reply comes when the client has given up',
  isCarriedOut: true,
  hitsReads: true,
  reply: async ({ deliver, outlast }) => {
    const answer = await deliver();
    await outlast();
    return answer;
  },
};

export const DELIVERED_TWICE: AmbiguityFault = {
  title: 'it is delivered twice, and the second answer arrives',
  isCarriedOut: true,
  hitsReads: false,
  reply: async ({ deliver }) => {
    await deliver();
    return deliver();
  },
};

export const ERROR_AFTERWARDS: AmbiguityFault = {
  title: 'it is carried out, and the answer is 500',
  isCarriedOut: true,
  hitsReads: false,
  reply: async ({ deliver, refusal }) => {
    await deliver();
    return refusal(500);
  },
};

export const REFUSED: AmbiguityFault = {
  title: 'it is refused with 503',
  isCarriedOut: false,
  hitsReads: true,
  reply: async ({ refusal }) => refusal(503),
};

export const LANDS_BEFORE_REPEAT: AmbiguityFault = {
  title: 'it arrives just before its repeat',
  isCarriedOut: false,
  hitsReads: false,
  reply: async ({ linger }) => {
    linger('before');
    return 'reset';
  },
};

export const LANDS_AFTER_REPEAT: AmbiguityFault = {
  title: 'it arrives just after its repeat',
  isCarriedOut: false,
  hitsReads: false,
  reply: async ({ linger }) => {
    linger('after');
    return 'reset';
  },
};
