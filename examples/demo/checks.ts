/** An expectation of the demo failed. The message is written for users. */
export class DemoFailure extends Error {}

export function expectThat(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) throw new DemoFailure(what);
}
