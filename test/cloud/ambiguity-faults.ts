/** What may become of a request, and of its reply, between a client and a server that are both well. */

import type { Answer, Reply } from '../scripted/scripted-server.ts';

/** One request that is hit. */
export interface Hit {
  /** Lets the server carry it out. Resolves to what it says. */
  deliver(): Promise<Answer>;
  /** How the provider says that it cannot now. */
  refusal(status: 500 | 503): Answer;
  /** Puts the client's clock forward until it takes the request for lost. Resolves when it has asked again, or has no need to. */
  outlast(): Promise<void>;
  /** It reaches the server when its client has sent it again: before that one, or after it; at the latest when all is over. */
  linger(arrival: 'before' | 'after'): void;
}

export interface AmbiguityFault {
  readonly title: string;
  /** The server carries the request out before anybody hears of it. */
  readonly isCarriedOut: boolean;
  /** It makes a difference to a request that changes nothing. */
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
