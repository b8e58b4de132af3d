/** Checks that control sequences in text from machines never reach the terminal. */
import { expect, test } from 'vitest';
import { coloured, type Paint, plain } from '../render/text/palette.ts';
import { printJson, printLines, type TerminalOutput } from './terminal.ts';

function printToText(paint: Paint, print: (output: TerminalOutput) => void): string {
  let text = '';
  const write = (more: string) => {
    text += more;
  };
  print({ write, columns: () => 80, rows: () => 24, interactive: true, paint, onResize: () => () => {} });
  return text;
}

const attacks = [
  'title \x1b]0;pwned\x07',
  'clear \x1b[2J\x1b[H',
  'hide \x1b[8mhidden',
  'up \x1b[1A\roverwritten',
  'eight bits \x9b2J\x9d0;pwned\x9c',
  'half \x1b[',
  'link \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\',
  'backwards \u202efdp.exe',
];

test.each(attacks)('removes escapes in a line from a machine and keeps our colours: %j', (attack) => {
  const line = `${coloured('bad', 'failed')}: ${attack} ${coloured('quiet', 'because')}`;
  const text = printToText(coloured, (output) => printLines(output, [line]));
  expect(text.startsWith('\x1b[31mfailed\x1b[0m: ')).toBe(true);
  expect(text.endsWith('\x1b[2mbecause\x1b[0m\n')).toBe(true);
  const withoutColours = ['0', '2', '31']
    .reduce((left, code) => left.replaceAll(`\x1b[${code}m`, ''), text)
    .slice(0, -1);
  expect(withoutColours).not.toMatch(/[\p{Cc}\u202a-\u202e]/u);
});

test('prints no escape sequence without colours', () => {
  const text = printToText(plain, (output) => printLines(output, ['a \x1b[31mred\x1b[0m', 'two\nlines']));
  expect(text).toBe('a red\ntwo\nlines\n');
});

test('escapes control characters in JSON', () => {
  const value = { detail: attacks.join('\n') };
  const text = printToText(plain, (output) => printJson(output, value));
  expect(JSON.parse(text)).toEqual(value);
  expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u);
});
