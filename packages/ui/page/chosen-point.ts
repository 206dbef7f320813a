/** The point of a picture that is read, chosen with the pointer or with keys. */

import { useState } from 'preact/hooks';
import { nearest } from './scale.ts';

export interface ChosenPoint {
  /** Index of the point; -1: no point is chosen. */
  readonly at: number;
  /** Attributes of the picture. */
  readonly handlers: {
    readonly onKeyDown: (event: KeyboardEvent) => void;
    readonly onPointerMove: (event: PointerEvent & { currentTarget: Element }) => void;
  };
}

/** `xs`: of each point, in pixels from the left of the picture, in ascending order. */
export function useChosenPoint(xs: readonly number[]): ChosenPoint {
  const [at, setAt] = useState(-1);
  const last = xs.length - 1;
  const onKeyDown = (event: KeyboardEvent) => {
    const from = at < 0 ? xs.length : at;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    setAt(Math.min(last, Math.max(0, next)));
    event.preventDefault();
  };
  const onPointerMove = (event: PointerEvent & { currentTarget: Element }) =>
    setAt(nearest(xs, event.clientX - event.currentTarget.getBoundingClientRect().left));
  return { at, handlers: { onKeyDown, onPointerMove } };
}
