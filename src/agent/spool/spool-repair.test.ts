/**
 * Tests a spool that was damaged, removed or restored from an older copy. The agent continues,
 * records the loss, and never reuses a number.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { openSpool, type Spool, type SpoolLine } from './spool.ts';
import { parseLines } from './spool-segments.ts';

const dirs: string[] = [];
const directory = () => {
  const dir = mkdtempSync(join(tmpdir(), 'slipway-spool-'));
  dirs.push(dir);
  return dir;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const limits = { segment_bytes: 800, max_bytes: 1_000_000, batch_bytes: 500 };
const open = (dir: string) => openSpool(dir, systemClock, limits);
const lines = (from: number, to: number): SpoolLine[] =>
  Array.from({ length: to - from + 1 }, (_, i) => ({
    at: '2026-01-01T00:00:00.000Z',
    stream: 'stdout',
    line: `line ${from + i}`,
  }));
const segmentsIn = (dir: string) => readdirSync(dir).filter((name) => name.endsWith('.lines'));

function drain(spool: Spool): { seq: number; line: string }[] {
  const shippedLines: { seq: number; line: string }[] = [];
  for (let batch = spool.batch(); batch; batch = spool.batch()) {
    shippedLines.push(...parseLines(batch.body));
    spool.acknowledge(batch.last);
  }
  return shippedLines;
}

const lineCount = 60;
const createFilledSpool = () => {
  const dir = directory();
  const spool = open(dir);
  for (const line of lines(1, lineCount)) spool.append([line]);
  spool.close();
  return dir;
};

/** Damage as by a bad disk: changed bytes, a truncated file or a missing file. */
const damage = fc.record({
  file: fc.nat(),
  kind: fc.constantFrom('zeros', 'letters', 'cut', 'remove'),
  from: fc.double({ min: 0, max: 1, noNaN: true }),
  bytes: fc.integer({ min: 1, max: 400 }),
});

test('after any damage, readable lines come in order and loss records count the missing lines', () => {
  const intactDir = createFilledSpool();
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
      const dir = directory();
      cpSync(intactDir, dir, { recursive: true });
      for (const { file, kind, from, bytes } of damages) {
        // The last file may end anywhere, so a loss in it cannot be counted.
        const segments = segmentsIn(dir).slice(0, -1);
        const index = file % segments.length;
        const path = join(dir, segments[index] ?? '');
        const content = readFileSync(path);
        const start = Math.floor(from * content.length);
        // A missing first file is not a loss: the server has all lines before the first file.
        if (kind === 'remove' && index > 0) rmSync(path);
        else if (kind === 'cut') writeFileSync(path, content.subarray(0, start));
        else
          writeFileSync(path, content.fill(kind === 'zeros' ? 0 : 'x', start, Math.min(content.length, start + bytes)));
      }
      const shippedLines = drain(open(dir));
      expect(shippedLines.map(({ seq }) => seq)).toEqual(shippedLines.map(({ seq }) => seq).toSorted((a, b) => a - b));
      const counts = shippedLines.map(({ line }) => Number(/^dropped (\d+) lines?: the spool/.exec(line)?.[1] ?? 0));
      expect(counts.reduce((sum, count) => sum + (count || 1), 0)).toBe(lineCount);
    }),
    { numRuns: 40 },
  );
});

test('counts the lines that were merged into one because their line ends were overwritten', () => {
  const dir = createFilledSpool();
  const path = join(dir, segmentsIn(dir)[0] ?? '');
  const content = readFileSync(path, 'latin1');
  const from = content.indexOf('line 2"');
  const to = content.indexOf('line 5"');
  writeFileSync(path, content.slice(0, from) + 'x'.repeat(to - from) + content.slice(to));
  expect(drain(open(dir)).slice(0, 4)).toMatchObject([
    { seq: 1, line: 'line 1' },
    { seq: 2, line: expect.stringMatching(/^x+line 5$/) },
    { seq: 5, line: "dropped 3 lines: the spool on the machine's disk was damaged" },
    { seq: 6, line: 'line 6' },
  ]);
});

test('a second repair does not change the file', () => {
  const dir = createFilledSpool();
  const path = join(dir, segmentsIn(dir)[0] ?? '');
  writeFileSync(path, readFileSync(path).fill(0, 100, 300));
  open(dir).close();
  const repaired = readFileSync(path, 'utf8');
  expect(repaired).toContain('dropped ');
  open(dir).close();
  expect(readFileSync(path, 'utf8')).toBe(repaired);
});

test('records a loss for unreadable lines at the end, and appends after it', () => {
  const dir = createFilledSpool();
  const last = join(dir, segmentsIn(dir).at(-1) ?? '');
  writeFileSync(last, `${'\0'.repeat(100)}\n`, { flag: 'a' });
  const spool = open(dir);
  spool.append(lines(61, 61));
  expect(drain(spool).slice(-2)).toMatchObject([
    { seq: 61, line: "dropped an unknown number of lines: the spool on the machine's disk was damaged" },
    { seq: 62, line: 'line 61' },
  ]);
});

test('after a restore, new lines get numbers above those that the server has', () => {
  const dir = directory();
  const original = open(dir);
  original.append(lines(1, 5));
  drain(original);
  const copy = directory();
  cpSync(dir, copy, { recursive: true });
  original.append(lines(6, 50));
  const serverSeq = drain(original).at(-1)?.seq ?? 0;
  const restored = open(copy);
  restored.append(lines(100, 120));
  restored.continueAfter(serverSeq);
  restored.append(lines(121, 121));
  const shippedLines = drain(restored);
  expect(shippedLines[0]).toMatchObject({
    seq: serverSeq + 1,
    line: expect.stringContaining('older than what the server has'),
  });
  expect(shippedLines.slice(1).map(({ line }) => line)).toEqual(lines(100, 121).map(({ line }) => line));
  expect(open(copy).lastSeq()).toBe(serverSeq + 1 + 22);
});

test('continueAfter does nothing after an ordinary restart', () => {
  const dir = createFilledSpool();
  const spool = open(dir);
  spool.append(lines(61, 61));
  spool.continueAfter(lineCount);
  expect(drain(spool).map(({ line }) => line)).toEqual(lines(1, 61).map(({ line }) => line));
});
