import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
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

const smallLimits = { segment_bytes: 400, max_bytes: 2_000, batch_bytes: 300 };
const largeLimits = { ...smallLimits, max_bytes: 1_000_000 };
const lines = (...texts: string[]): SpoolLine[] =>
  texts.map((line) => ({ at: '2026-01-01T00:00:00.000Z', stream: 'stdout', line }));

/** Reads all lines, like a server that acknowledges each batch. */
function drain(spool: Spool): { seq: number; line: string }[] {
  const shippedLines: { seq: number; line: string }[] = [];
  for (let batch = spool.batch(); batch; batch = spool.batch()) {
    const parsed = parseLines(batch.body);
    expect(parsed.at(0)?.seq).toBe(batch.first);
    expect(parsed.at(-1)?.seq).toBe(batch.last);
    shippedLines.push(...parsed);
    spool.acknowledge(batch.last);
  }
  return shippedLines;
}

test('returns each line once, in order and numbered without gaps, over many segments', () => {
  const spool = openSpool(directory(), systemClock, largeLimits);
  const texts = Array.from({ length: 60 }, (_, i) => `line ${i}`);
  for (const text of texts) spool.append(lines(text));
  const shippedLines = drain(spool);
  expect(shippedLines.map(({ line }) => line)).toEqual(texts);
  expect(shippedLines.map(({ seq }) => seq)).toEqual(texts.map((_, i) => i + 1));
  expect(spool.batch()).toBeNull();
});

test('returns unacknowledged lines again', () => {
  const spool = openSpool(directory(), systemClock, largeLimits);
  spool.append(lines('a', 'b', 'c'));
  expect(spool.batch()?.last).toBe(3);
  spool.acknowledge(2);
  expect(spool.batch()).toMatchObject({ first: 3, last: 3 });
});

test('returns a smaller batch on request', () => {
  const spool = openSpool(directory(), systemClock, largeLimits);
  spool.append(lines('a', 'b', 'c'));
  expect(spool.batch(2)).toMatchObject({ first: 1, last: 2 });
});

test('removes a partly written last line and reuses its number', () => {
  const dir = directory();
  openSpool(dir, systemClock, largeLimits).append(lines('a', 'b'));
  const [segment = ''] = readdirSync(dir).filter((name) => name.endsWith('.lines'));
  truncateSync(join(dir, segment), statSync(join(dir, segment)).size - 5);
  const spool = openSpool(dir, systemClock, largeLimits);
  spool.append(lines('c'));
  expect(drain(spool)).toMatchObject([
    { seq: 1, line: 'a' },
    { seq: 2, line: 'c' },
  ]);
});

test('never reuses an acknowledged number, even if the segments were deleted', () => {
  const dir = directory();
  const first = openSpool(dir, systemClock, largeLimits);
  first.append(lines('a', 'b', 'c'));
  first.acknowledge(3);
  first.close();
  for (const name of readdirSync(dir)) if (name.endsWith('.lines')) rmSync(join(dir, name));
  const spool = openSpool(dir, systemClock, largeLimits);
  spool.append(lines('d'));
  expect(drain(spool)).toMatchObject([{ seq: 4, line: 'd' }]);
});

test('removes acknowledged segments but keeps the last lines', () => {
  const dir = directory();
  const spool = openSpool(dir, systemClock, largeLimits);
  for (let i = 0; i < 60; i++) spool.append(lines(`line ${i}`));
  const before = readdirSync(dir).length;
  drain(spool);
  expect(readdirSync(dir).length).toBeLessThan(before);
  expect(spool.tail(3).map(({ line }) => line)).toEqual(['line 57', 'line 58', 'line 59']);
});

describe('a full spool', () => {
  const createFullSpool = (dir: string) => {
    const spool = openSpool(dir, systemClock, smallLimits);
    for (let i = 1; i <= 200; i++) spool.append(lines(`line ${i}`));
    return spool;
  };
  const bytesIn = (dir: string) => readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);

  test('stays within its size limit and replaces dropped lines by a record of their number', () => {
    const dir = directory();
    const spool = createFullSpool(dir);
    expect(bytesIn(dir)).toBeLessThan(smallLimits.max_bytes + 2 * smallLimits.segment_bytes);
    const [notice, ...remaining] = drain(spool);
    const numbers = remaining.map(({ line }) => Number(line.split(' ')[1]));
    expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => 200 - numbers.length + 1 + i));
    expect(notice?.line).toContain(`dropped ${200 - numbers.length} lines`);
    expect(notice?.seq).toBe(200 - numbers.length);
  });

  test('asks writers to slow down before it is full', () => {
    const spool = openSpool(directory(), systemClock, smallLimits);
    spool.append(lines('a'));
    expect(spool.isCrowded()).toBe(false);
    for (let i = 0; i < 20; i++) spool.append(lines(`line ${i}`));
    expect(spool.isCrowded()).toBe(true);
    drain(spool);
    expect(spool.isCrowded()).toBe(false);
  });

  test('does not ship lines that a crash left although their loss is recorded', () => {
    const dir = directory();
    createFullSpool(dir).close();
    const gap = readdirSync(dir).find((name) => name.endsWith('.gap')) ?? '';
    const leftLine = { seq: Number.parseInt(gap, 10), at: '2026-01-01T00:00:00.000Z', stream: 'stdout', line: 'again' };
    writeFileSync(join(dir, gap.replace('.gap', '.lines')), `${JSON.stringify(leftLine)}\n`);
    const shippedLines = drain(openSpool(dir, systemClock, smallLimits));
    expect(shippedLines.map(({ line }) => line)).not.toContain('again');
    expect(shippedLines[0]?.line).toContain('dropped');
  });
});

test('counts lines that could not be written, and records the loss with the next line', () => {
  let isFull = false;
  const spool = openSpool(directory(), systemClock, largeLimits, (file, content, offset) => {
    if (!isFull) return writeSync(file, content, offset);
    // The disk fills up in the middle of a line.
    if (offset === 0) return writeSync(file, content, 0, 10);
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  });
  spool.append(lines('before'));
  isFull = true;
  spool.append(lines('lost 1', 'lost 2'));
  spool.append(lines('lost 3'));
  isFull = false;
  spool.append(lines('after'));
  expect(drain(spool)).toMatchObject([
    { seq: 1, line: 'before' },
    { seq: 2, line: 'dropped 3 lines: the spool could not be written (ENOSPC)' },
    { seq: 3, line: 'after' },
  ]);
});

test('loses, repeats or reorders no line in any sequence of appends, acknowledgements and restarts', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 8 }) }),
    fc.record({ do: fc.constant('ship' as const), part: fc.integer({ min: 0, max: 10 }) }),
    fc.record({ do: fc.constant('reopen' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const dir = directory();
      let spool = openSpool(dir, systemClock, largeLimits);
      let written = 0;
      const server: { seq: number; line: string }[] = [];
      const take = (all: { seq: number; line: string }[]) => {
        for (const line of all) if (line.seq > (server.at(-1)?.seq ?? 0)) server.push(line);
      };
      for (const step of steps) {
        if (step.do === 'append') {
          spool.append(lines(...Array.from({ length: step.count }, (_, i) => `line ${written + i + 1}`)));
          written += step.count;
        } else if (step.do === 'reopen') {
          // Not closed before, as after a kill.
          spool = openSpool(dir, systemClock, largeLimits);
        } else {
          const batch = spool.batch();
          const parsed = batch ? parseLines(batch.body) : [];
          take(parsed.slice(0, step.part));
          spool.acknowledge(server.at(-1)?.seq ?? 0);
        }
      }
      take(drain(spool));
      expect(server.map(({ seq, line }) => `${seq} ${line}`)).toEqual(
        Array.from({ length: written }, (_, i) => `${i + 1} line ${i + 1}`),
      );
    }),
    { numRuns: 60 },
  );
});

test('forgetAll removes all lines that the server has, and numbers continue after a restart', () => {
  const dir = directory();
  const spool = openSpool(dir, systemClock, largeLimits);
  spool.append(lines('a', 'b'));
  expect(spool.forgetAll(), 'while lines wait').toBe(false);
  expect(drain(spool)).toHaveLength(2);
  writeFileSync(join(dir, 'planted'), 'by a workload');
  expect(spool.forgetAll()).toBe(true);
  expect(spool.tail(10)).toEqual([]);
  expect(readdirSync(dir).map((name) => [name, statSync(join(dir, name)).size])).toEqual([
    ['0000000000000003.lines', 0],
    ['acknowledged', 16],
  ]);
  expect(spool.forgetAll(), 'a second call').toBe(true);
  spool.append(lines('c'));
  expect(drain(openSpool(dir, systemClock, largeLimits))).toMatchObject([{ seq: 3, line: 'c' }]);
});
