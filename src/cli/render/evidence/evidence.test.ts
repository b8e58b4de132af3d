/** Checks that a timeline names the source of each statement, and removes escape sequences. */
import { describe, expect, it } from 'vitest';
import { printJson, printJsonLine, type TerminalOutput } from '../../terminal/terminal.ts';
import { sampleEvidence } from '../../testing/samples.ts';
import { plain } from '../text/palette.ts';
import { timelineLines } from './evidence.ts';

const unsafe = /[\p{Cc}\u{202a}-\u{202e}]/u;
const fit = { width: 200, paint: plain };
const lastLine = (fact: Parameters<typeof sampleEvidence>[0]) =>
  timelineLines([sampleEvidence(fact)], fit).at(-1) ?? '';

describe('a timeline', () => {
  it('marks statements of machines and outside programs, but not our own', () => {
    const actor = { kind: 'token', id: 'tok_1', name: 'ci-bot' };
    expect(lastLine({ summary: 'it is fine', origin: 'internal', actor })).toMatch(/ {2}it is fine — by ci-bot$/);
    expect(lastLine({ summary: 'it is fine', origin: 'node' })).toContain('[machine says] it is fine');
    expect(lastLine({ summary: 'it is fine', origin: 'report', layer: 'node' })).toContain('[machine says] it is fine');
    expect(lastLine({ summary: 'it failed', origin: 'report', layer: 'provider' })).toContain(
      '[reported by a watcher]',
    );
    expect(lastLine({ summary: 'it is fine', origin: 'person', actor })).toMatch(/\[reported by ci-bot\] it is fine$/);
  });

  it('removes escape sequences', () => {
    const hostile = '\x1b]0;title\x07\x1b[2Jfine\r\u009b31m\u202ekcab';
    const actor = { kind: 'token', id: 'tok_1', name: 'bot\x1b[2J' };
    for (const origin of ['node', 'person', 'internal'] as const)
      expect(lastLine({ summary: hostile, origin, actor })).not.toMatch(unsafe);
  });
});

it('prints JSON without anything that a terminal acts on', () => {
  const written: string[] = [];
  const output = { write: (text: string) => written.push(text) } as unknown as TerminalOutput;
  const value = { summary: '\x1b[2J \u009b31m \x7f \u202ekcab', kept: 'Grüße 🚢' };
  printJson(output, value);
  printJsonLine(output, value);
  for (const text of written) {
    expect(JSON.parse(text)).toEqual(value);
    expect(text.replaceAll('\n', '')).not.toMatch(unsafe);
    expect(text).toContain('Grüße 🚢');
  }
});
