/**
 * A damaged, removed or restored spool: the agent continues, losses are recorded, and no new line
 * reuses an old number.
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
  const taken: { seq: number; line: string }[] = [];
  for (let batch = spool.batch(); batch; batch = spool.batch()) {
    taken.push(...parseLines(batch.body));
    spool.acknowledge(batch.last);
  }
  return taken;
}

const written = 60;
const filled = () => {
  const dir = directory();
  const spool = open(dir);
  for (const line of lines(1, written)) spool.append([line]);
  spool.close();
  return dir;
};

/** Like a bad disk: changed bytes, a truncated file, or a missing one. */
const damage = fc.record({
  file: fc.nat(),
  how: fc.constantFrom('zeros', 'letters', 'cut', 'remove'),
  from: fc.double({ min: 0, max: 1, noNaN: true }),
  bytes: fc.integer({ min: 1, max: 400 }),
});

test('whatever is damaged, readable lines come in order and losses are counted in their place', () => {
  const whole = filled();
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
      const dir = directory();
      cpSync(whole, dir, { recursive: true });
      for (const { file, how, from, bytes } of damages) {
        // Not the last file, which may end anywhere.
        const segments = segmentsIn(dir).slice(0, -1);
        const place = file % segments.length;
        const path = join(dir, segments[place] ?? '');
        const content = readFileSync(path);
        const start = Math.floor(from * content.length);
        // The server has everything before the first file.
        if (how === 'remove' && place > 0) rmSync(path);
        else if (how === 'cut') writeFileSync(path, content.subarray(0, start));
        else
          writeFileSync(path, content.fill(how === 'zeros' ? 0 : 'x', start, Math.min(content.length, start + bytes)));
      }
      const taken = drain(open(dir));
      expect(taken.map(({ seq }) => seq)).toEqual(taken.map(({ seq }) => seq).toSorted((a, b) => a - b));
      const counts = taken.map(({ line }) => Number(/^dropped (\d+) lines?: the spool/.exec(line)?.[1] ?? 0));
      expect(counts.reduce((sum, count) => sum + (count || 1), 0)).toBe(written);
    }),
    { numRuns: 40 },
  );
});

test('counts the lines that one with an overwritten end swallowed', () => {
  const dir = filled();
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

test('repairing twice changes nothing', () => {
  const dir = filled();
  const path = join(dir, segmentsIn(dir)[0] ?? '');
  writeFileSync(path, readFileSync(path).fill(0, 100, 300));
  open(dir).close();
  const mended = readFileSync(path, 'utf8');
  expect(mended).toContain('dropped ');
  open(dir).close();
  expect(readFileSync(path, 'utf8')).toBe(mended);
});

test('records unreadable lines at the very end, and continues after them', () => {
  const dir = filled();
  const last = join(dir, segmentsIn(dir).at(-1) ?? '');
  writeFileSync(last, `${'\0'.repeat(100)}\n`, { flag: 'a' });
  const spool = open(dir);
  spool.append(lines(61, 61));
  expect(drain(spool).slice(-2)).toMatchObject([
    { seq: 61, line: "dropped lines, nobody knows how many: the spool on the machine's disk was damaged" },
    { seq: 62, line: 'line 61' },
  ]);
});

test('a restored machine numbers its new lines beyond those that the server has', () => {
  const dir = directory();
  const before = open(dir);
  before.append(lines(1, 5));
  drain(before);
  const kept = directory();
  cpSync(dir, kept, { recursive: true });
  before.append(lines(6, 50));
  const known = drain(before).at(-1)?.seq ?? 0;
  const after = open(kept);
  after.append(lines(100, 120));
  after.goOnBeyond(known);
  after.append(lines(121, 121));
  const taken = drain(after);
  expect(taken[0]).toMatchObject({ seq: known + 1, line: expect.stringContaining('older than what the server has') });
  expect(taken.slice(1).map(({ line }) => line)).toEqual(lines(100, 121).map(({ line }) => line));
  expect(open(kept).lastSeq()).toBe(known + 1 + 22);
});

test('an ordinary restart changes nothing', () => {
  const dir = filled();
  const spool = open(dir);
  spool.append(lines(61, 61));
  spool.goOnBeyond(written);
  expect(drain(spool).map(({ line }) => line)).toEqual(lines(1, 61).map(({ line }) => line));
});
