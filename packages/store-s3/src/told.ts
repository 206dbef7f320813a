/**
 * Answer about a setting: its value, `undefined` if it is not set, or the reason why it is unknown.
 */
export type Told<T> = { readonly value: T | undefined } | { readonly untold: string };
