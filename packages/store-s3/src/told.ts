/** What was asked: the value, `undefined` where nothing is set, or why it is not told. */
export type Told<T> = { readonly value: T | undefined } | { readonly untold: string };
