import { styleText } from 'node:util';

export type StyleName = 'bold' | 'dim' | 'green' | 'red' | 'yellow' | 'cyan';

/** Colours a text, or leaves it alone where there is to be no colour. */
export type Style = (name: StyleName, text: string) => string;

export const plainStyle: Style = (_, text) => text;

export const colorStyle: Style = (name, text) => styleText(name, text, { validateStream: false });
