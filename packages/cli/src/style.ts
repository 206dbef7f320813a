import { styleText } from 'node:util';

export type StyleName = 'bold' | 'dim' | 'green' | 'red' | 'yellow' | 'cyan';

/** Colours a text, or returns it unchanged if colour is off. */
export type Style = (name: StyleName, text: string) => string;

export const plainStyle: Style = (_, text) => text;

export const colorStyle: Style = (name, text) => styleText(name, text, { validateStream: false });
