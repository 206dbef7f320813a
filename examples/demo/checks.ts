/** An expectation of the demo that failed; its message is for people. */
export class DemoFailure extends Error {}

export function expectThat(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) throw new DemoFailure(what);
}
