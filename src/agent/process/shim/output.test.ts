/** Tests how output gets from the segments of the shim into the log of the agent. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { openSpool, type Spool } from '../../spool/spool.ts';
import { outputReader } from './output-reader.ts';
import { openOutput } from './output-writer.ts';

let dir: string;
let spool: Spool;
/** The lines that a reader reported. */
let seen: string[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'slipway-output-'));
  mkdirSync(join(dir, 'output'));
  seen = [];
  spool = openSpool(join(dir, 'spool'), systemClock);
});
afterEach(() => {
  spool.close();
  rmSync(dir, { recursive: true, force: true });
});

const limits = { segment_bytes: 500, max_segments: 4, crowded_segments: 2 };
const openWriter = (redact = (text: string) => text) => openOutput(join(dir, 'output'), systemClock, redact, limits);
const listSegments = () => readdirSync(join(dir, 'output'));
const readCopied = () => spool.tail(1_000_000).map(({ stream, line }) => `${stream} ${line}`);

/** A reader in a new agent. `killAt` throws at that call of the log, like a kill. */
function openReader(killAt: { call: number; isCopied: boolean } | null = null) {
  let calls = 0;
  return outputReader({
    directory: join(dir, 'output'),
    position_file: join(dir, 'position'),
    spool,
    log: {
      lines(stream, lines, at = '') {
        calls += 1;
        if (calls === killAt?.call && !killAt.isCopied) throw new Error('killed');
        spool.append(lines.map((line) => ({ at, stream, line })));
        if (calls === killAt?.call) throw new Error('killed');
      },
    },
    onLine: (line) => void seen.push(line),
  });
}
const readAll = (reader = openReader()) => {
  try {
    while (reader.copy());
  } finally {
    reader.close();
  }
};

test('copies lines in order, with their stream, and removes segments that were read', () => {
  const output = openWriter();
  for (let i = 0; i < 30; i++) {
    output.lines('stdout', [`out ${i}`]);
    output.lines('stderr', [`err ${i}`]);
    if (i % 5 === 0) readAll();
  }
  readAll();
  const expected = Array.from({ length: 30 }, (_, i) => [`stdout out ${i}`, `stderr err ${i}`]).flat();
  expect(readCopied()).toEqual(expected);
  expect(listSegments()).toHaveLength(1);
});

test('without a reader keeps a bounded number of segments, and the reader records how many lines are lost', () => {
  const output = openWriter();
  const total = 500;
  for (let i = 1; i <= total; i++) output.lines('stdout', [`line ${i}`]);
  expect(listSegments()).toHaveLength(limits.max_segments);
  expect(output.isCrowded()).toBe(true);
  for (const name of listSegments()) expect(statSync(join(dir, 'output', name)).size).toBeLessThan(1_000);
  readAll();
  expect(output.isCrowded()).toBe(false);
  const [loss = '', first = ''] = readCopied();
  const lost = Number(/^agent dropped (\d+) lines/.exec(loss)?.[1]);
  expect(first).toBe(`stdout line ${lost + 1}`);
  expect(readCopied()).toHaveLength(total - lost + 1);
  expect(readCopied().at(-1)).toBe(`stdout line ${total}`);
});

test.for([true, false])('an agent killed at a copy (copied: %s) repeats and loses nothing', (isCopied) => {
  const output = openWriter();
  output.lines('stdout', ['same', 'same']);
  readAll();
  output.lines('stdout', ['same']);
  output.lines('stderr', ['other']);
  expect(() => readAll(openReader({ call: 1, isCopied }))).toThrow('killed');
  output.lines('stdout', ['next']);
  readAll();
  expect(readCopied()).toEqual(['stdout same', 'stdout same', 'stdout same', 'stderr other', 'stdout next']);
  expect(seen, 'no line was hidden from the agent').toEqual(['same', 'same', 'same', 'next']);
});

test.for([true, false])('a copy that fails (copied: %s) repeats and loses nothing in the same agent', (isCopied) => {
  const output = openWriter();
  for (let i = 1; i <= 3; i++) output.lines('stdout', [`line ${i}`]);
  const reader = openReader({ call: 1, isCopied });
  expect(() => reader.copy()).toThrow('killed');
  output.lines('stdout', ['line 4']);
  readAll(reader);
  expect(readCopied()).toEqual([1, 2, 3, 4].map((i) => `stdout line ${i}`));
});

test('counts records that a power cut damaged as lost', () => {
  const output = openWriter();
  for (let i = 1; i <= 6; i++) output.lines('stdout', [`${i}`]);
  const [name = ''] = listSegments();
  const path = join(dir, 'output', name);
  const records = readFileSync(path, 'utf8').split('\n');
  for (const i of [1, 2, 5]) records[i] = (records[i] ?? '').slice(0, 20).padEnd(40, '\0');
  writeFileSync(path, records.join('\n'));
  readAll();
  const loss = (count: string) => `agent dropped ${count}: the output on the machine's disk was damaged`;
  expect(readCopied()).toEqual(['stdout 1', loss('2 lines'), 'stdout 4', 'stdout 5', loss('1 line')]);
  readAll();
  expect(readCopied()).toHaveLength(5);
});

test('ignores a line that was only partly written when the shim was killed', () => {
  openWriter().lines('stdout', ['whole']);
  const [name = ''] = listSegments();
  const path = join(dir, 'output', name);
  writeFileSync(path, `${readFileSync(path, 'utf8')}{"seq":2,"at":"2026`);
  readAll();
  expect(readCopied()).toEqual(['stdout whole']);
});

test('redacts before anything is on the disk', () => {
  openWriter((text) => text.replaceAll('secret', '***')).lines('stdout', ['a secret']);
  const [name = ''] = listSegments();
  expect(readFileSync(join(dir, 'output', name), 'utf8')).toContain('a ***');
});
