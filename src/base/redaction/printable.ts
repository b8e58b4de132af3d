/**
 * Makes untrusted text safe to print: an escape sequence in a machine's log line must not move the
 * reader's cursor, set the title or hide a line.
 */
import { stripVTControlCharacters } from 'node:util';

/** Control characters and marks of writing direction: both can disguise the content of a line. */
const deceptive = /[\p{Cc}\u{2028}-\u{202e}\u{2066}-\u{2069}]/gu;

const neutral = (line: string): string =>
  stripVTControlCharacters(line).replaceAll('\t', '    ').replace(deceptive, ' ');

/** For a single line. */
export const printable = (line: string): string => neutral(line).trimEnd();

/** For several lines. */
export const printableText = (text: string): string => text.split('\n').map(neutral).join('\n');
