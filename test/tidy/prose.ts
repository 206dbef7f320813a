/**
 * Rules for the words of comments and documents that a machine can check. CONTRIBUTING.md has all
 * rules.
 */

import { isCode, isTest, type Repository } from './repository.ts';
import { commentsOf, stringTokensOf } from './syntax.ts';

const COLUMNS_MAX = 100;

/** Processes, requests and bytes are no persons. */
const PRONOUN =
  /\b(?:nobody|somebody|anybody|whoever|someone|anyone|oneself|himself|one's own|he|him|his)\b/i;

/** A sentence begins with the thing that acts, not with what it acts on or when. */
const OPENER = /^(?:Of|Whoever|None|Where|What is|What was|Who)\b/;

/** The comments of these places follow the rules. */
const PLAIN = /^(?:packages\/[^/]+\/(?:src|page)|examples|scripts|test)\//;
const GENERATED = 'packages/wire/src/generated.ts';

export function hardComments(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => isCode(path) && PLAIN.test(path) && path !== GENERATED)
    .flatMap(([path, text]) => [
      ...longLines(text).map((line) => `${path}:${line}: break the comment before column ${COLUMNS_MAX}`),
      ...sentencesOf(text).flatMap(({ line, words }) =>
        faultsOf(words).map((fault) => `${path}:${line}: ${fault}: ${words.slice(0, 60)}`),
      ),
    ]);
}

/** "There is none" is plain. */
const NONE = /(?<!there )\b(?:is|are|be) none\b/i;

/** Behind `it(`, `test(`, `describe(` and `test.each(…)(`. */
const BEFORE_NAME = /(?:\b(?:it|test|describe)(?:\.\w+)*|\))\(\s*$/;

/** Certificates of stores repeat the names of checks, so these never change. */
const KEPT = 'list: what was created before its first page is shown, whoever created it';

/** A name, or its part behind ';' or ':', begins with the thing that acts. */
const NAME_OPENER = /(?:^.|[;:]\s+)(of|whoever|who)\b/i;

/** Messages, texts of help, and names of tests. */
export function hardStrings(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => isCode(path) && PLAIN.test(path) && path !== GENERATED)
    .flatMap(([path, text]) => {
      const hasMessages = path.startsWith('packages/') && !isTest(path);
      return stringTokensOf(text)
        .filter(({ before }) => hasMessages || BEFORE_NAME.test(before))
        .filter(({ text: token }) => !token.includes(KEPT))
        .flatMap(({ line, text: token }) =>
          [...pronounsIn(token), ...noneIn(token), ...(hasMessages ? [] : nameOpenerIn(token))].map(
            (fault) => `${path}:${line}: ${fault}: ${token.slice(0, 60)}`,
          ),
        );
    });
}

function noneIn(words: string): string[] {
  return NONE.test(words) ? ['say what it is, not that it "is none"'] : [];
}

function nameOpenerIn(name: string): string[] {
  const opener = NAME_OPENER.exec(name)?.[1];
  return opener ? [`begin with the subject, not with "${opener}"`] : [];
}

/** Tables and headings need no sentences, so only their pronouns are checked. */
export function hardDocuments(repository: Repository): string[] {
  return [...repository]
    .filter(([path]) => path.endsWith('.md'))
    .flatMap(([path, text]) =>
      passagesOf(text).flatMap(({ line, words, hasSentences }) => {
        const faults = sentencesIn(words).flatMap((sentence) =>
          (hasSentences ? faultsOf(sentence) : pronounsIn(sentence)).map(
            (fault) => `${fault}: ${sentence.slice(0, 60)}`,
          ),
        );
        return faults.map((fault) => `${path}:${line}: ${fault}`);
      }),
    );
}

function faultsOf(words: string): string[] {
  const opener = OPENER.exec(words)?.[0];
  return [
    ...pronounsIn(words),
    ...(opener ? [`begin the sentence with its subject, not with "${opener}"`] : []),
  ];
}

function pronounsIn(words: string): string[] {
  const pronoun = PRONOUN.exec(words)?.[0];
  return pronoun ? [`say who "${pronoun}" is: writer, reader, caller, process`] : [];
}

interface Passage {
  /** Its first line, from 1. */
  readonly line: number;
  words: string;
  readonly hasSentences: boolean;
}

/** Paragraphs, items of lists, headings and rows of tables. Blocks of code are left out. */
function passagesOf(markdown: string): Passage[] {
  const passages: Passage[] = [];
  let open: Passage | undefined;
  const prose = markdown.replace(/^(```|~~~)[\s\S]*?^\1/gm, (block) => block.replace(/[^\n]+/g, ''));
  for (const [index, text] of prose.split('\n').entries()) {
    const isApart = /^\s*(?:\||#)/.test(text);
    const begins = open === undefined || isApart || /^\s*(?:[-*>]|\d+\.)\s/.test(text);
    if (open && !begins && text.trim() !== '') {
      open.words += ` ${text}`;
      continue;
    }
    const passage = { line: index + 1, words: text, hasSentences: !isApart };
    passages.push(passage);
    open = isApart || text.trim() === '' ? undefined : passage;
  }
  return passages;
}

/** Without marks of lists, emphasis and links, and without code in backticks. */
function sentencesIn(markdown: string): string[] {
  return markdown
    .replace(/`[^`]*`/g, 'it')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/^\s*(?:[-*>]|\d+\.)\s+/, '')
    .replace(/(?<!\w)[*_]+|[*_]+(?!\w)/g, '')
    .split(/(?<=[.;!?])\s+/)
    .map((words) => words.replace(/^[[("\s]+/, ''));
}

function longLines(text: string): number[] {
  const lines = text.split('\n');
  return commentsOf(text)
    .flatMap(({ line, text: comment }) => comment.split('\n').map((_, index) => line + index))
    .filter((line) => {
      const content = lines[line - 1] ?? '';
      return content.length > COLUMNS_MAX && !/https?:\/\/\S{40}/.test(content);
    });
}

/** The sentences of all comments. `line`: where the comment begins. */
function sentencesOf(text: string): { readonly line: number; readonly words: string }[] {
  return joined(commentsOf(text)).flatMap(({ line, text: comment }) =>
    plainWords(comment)
      .split(/(?<=[.;!?])\s+/)
      .map((words) => ({ line, words: words.trim() })),
  );
}

/** Lines of `//` that follow each other are one comment. */
function joined(comments: ReturnType<typeof commentsOf>): ReturnType<typeof commentsOf> {
  const whole: { line: number; text: string }[] = [];
  let endLine = -1;
  for (const { line, text } of comments) {
    const last = whole.at(-1);
    if (last && text.startsWith('//') && last.text.startsWith('//') && line === endLine + 1)
      last.text += `\n${text}`;
    else whole.push({ line, text });
    endLine = line + text.split('\n').length - 1;
  }
  return whole;
}

/**
 * The comment without its marks and without code in backticks. An empty line and an item of a list
 * end a sentence.
 */
function plainWords(comment: string): string {
  return comment
    .replace(/^\/\*+|\*+\/$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*(?:\/\/|\*)\s?/, '').trim())
    .map((line) => (line === '' ? '. ' : /^(?:- |@)/.test(line) ? `. ${line.slice(2)}` : line))
    .join(' ')
    .replace(/`[^`]*`/g, 'it')
    .replace(/\s+/g, ' ');
}
