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

/** Every comment with its marks, in order. `line`: of its first character, from 1. */
export function commentsOf(text: string): { readonly line: number; readonly text: string }[] {
  const comments: { line: number; text: string }[] = [];
  let at = 0;
  let line = 1;
  for (const match of text.matchAll(COMMENT_OR_STRING)) {
    // Two slashes right behind a character are of a regular expression.
    const isInCode = match[0].startsWith('//') && /\S/.test(text[match.index - 1] ?? ' ');
    if (!isComment(match[0]) || isInCode) continue;
    line += text.slice(at, match.index).split('\n').length - 1;
    at = match.index;
    comments.push({ line, text: match[0] });
  }
  return comments;
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
