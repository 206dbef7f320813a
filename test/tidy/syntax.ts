/** The parts of TypeScript that the rules need. Biome and tsc check types, lint and format. */

const COMMENT_OR_STRING =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g;

function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}

function isComment(token: string): boolean {
  return token.startsWith('/');
}

/** The text with every comment replaced by spaces. */
export function withoutComments(text: string): string {
  return text.replace(COMMENT_OR_STRING, (token) => (isComment(token) ? blank(token) : token));
}

/** The text with every comment and string replaced by spaces. */
export function codeOnly(text: string): string {
  return text.replace(COMMENT_OR_STRING, blank);
}

interface Token {
  /** Of its first character, from 1. */
  readonly line: number;
  /** With its marks. */
  readonly text: string;
  /** The code before it. */
  readonly before: string;
}

const BEFORE_LENGTH = 40;

/** Every comment and string, in order. */
function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  for (const { 0: token, index } of text.matchAll(COMMENT_OR_STRING)) {
    // Two slashes right behind a character are of a regular expression.
    if (token.startsWith('//') && /\S/.test(text[index - 1] ?? ' ')) continue;
    line += text.slice(at, index).split('\n').length - 1;
    at = index;
    tokens.push({ line, text: token, before: text.slice(Math.max(0, index - BEFORE_LENGTH), index) });
  }
  return tokens;
}

/** Every comment with its marks, in order. */
export function commentsOf(text: string): Omit<Token, 'before'>[] {
  return tokensOf(text).filter((token) => isComment(token.text));
}

/** Every string with its marks, in order. */
export function stringTokensOf(text: string): Token[] {
  return tokensOf(text).filter((token) => !isComment(token.text));
}

/** The contents of every string, in order. */
export function stringsOf(text: string): string[] {
  const tokens = text.match(COMMENT_OR_STRING) ?? [];
  return tokens.filter((token) => !isComment(token)).map((token) => token.slice(1, -1));
}

const IMPORTS = [
  /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
  /^\s*import\s*['"]([^'"]+)['"]/gm,
  /\bimport\(\s*['"]([^'"]+)['"]\s*\)/g,
];

/** All modules that a file imports: static, re-exported, dynamic, and types. */
export function importsOf(text: string): string[] {
  const code = withoutComments(text);
  return IMPORTS.flatMap((pattern) => Array.from(code.matchAll(pattern), (match) => match[1] ?? ''));
}
