/**
 * Text from outside, made safe to print. Messages and log lines come from machines that we do not trust; an escape sequence in
 * one must not move the reader's cursor, set the title or hide a line.
 */
import { stripVTControlCharacters } from 'node:util';

/** Control characters, and the marks that turn the direction of writing: both can make a line say what it does not. */
const deceptive = /[\p{Cc}\u{2028}-\u{202e}\u{2066}-\u{2069}]/gu;

const neutral = (line: string): string =>
  stripVTControlCharacters(line).replaceAll('\t', '    ').replace(deceptive, ' ');

/** One line of it. */
export const printable = (line: string): string => neutral(line).trimEnd();

/** Text of several lines. */
export const printableText = (text: string): string => text.split('\n').map(neutral).join('\n');
