/** Measures, cuts, pads and wraps text by the columns that it takes on a terminal. */
import { stripVTControlCharacters } from 'node:util';
import { eastAsianWidth } from 'get-east-asian-width';

export { printable } from '../../../base/redaction/printable.ts';

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
const startsWithEmoji = /^\p{Emoji_Presentation}/u;
const plainAscii = /^[ -~]*$/;
/** Emoji and wide East Asian characters take two columns. */
const columnsOf = (grapheme: string) =>
  startsWithEmoji.test(grapheme) || eastAsianWidth(grapheme.codePointAt(0) ?? 0) === 2 ? 2 : 1;

/** Returns the number of columns. Ignores colour sequences. */
export function displayWidth(text: string): number {
  if (plainAscii.test(text)) return text.length;
  const bare = stripVTControlCharacters(text);
  let width = 0;
  for (const { segment } of graphemes.segment(bare)) width += columnsOf(segment);
  return width;
}

/** Cuts text without colours to `width` columns, with an ellipsis at the end. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let prefix = '';
  let used = 1;
  for (const { segment } of graphemes.segment(text)) {
    used += columnsOf(segment);
    if (used > width) break;
    prefix += segment;
  }
  return width <= 0 ? '' : `${prefix.trimEnd()}…`;
}

export const pad = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - displayWidth(text)));

export const padStart = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - displayWidth(text))) + text;

/** Wraps text without colours at spaces. A longer word stays whole, so that ids can be copied. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && displayWidth(longer) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

/** `1 row`, `1,204 rows`. */
export const formatCount = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** Adds a full stop, unless the text already ends a sentence. */
export const endSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** Joins pieces with ` · ` and wraps only between them. */
export function flow(pieces: string[], width: number): string[] {
  const lines: string[] = [];
  for (const piece of pieces) {
    const last = lines.at(-1);
    if (last !== undefined && displayWidth(last) + 3 + displayWidth(piece) <= width)
      lines[lines.length - 1] = `${last} · ${piece}`;
    else lines.push(piece);
  }
  return lines;
}
