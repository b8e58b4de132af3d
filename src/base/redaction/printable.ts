/**
 * Makes untrusted text safe to print. An escape sequence in a machine's log line must not move the
 * reader's cursor, set the terminal's title or hide a line.
 */
import { stripVTControlCharacters } from 'node:util';

/** Control characters and marks of writing direction, which can disguise the content of a line. */
const deceptiveCharacters = /[\p{Cc}\u{2028}-\u{202e}\u{2066}-\u{2069}]/gu;

const neutralize = (line: string): string =>
  stripVTControlCharacters(line).replaceAll('\t', '    ').replace(deceptiveCharacters, ' ');

/** Makes a single line safe to print. */
export const printable = (line: string): string => neutralize(line).trimEnd();

/** Makes several lines safe to print. */
export const printableText = (text: string): string => text.split('\n').map(neutralize).join('\n');
