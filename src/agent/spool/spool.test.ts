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

const small = { segment_bytes: 400, max_bytes: 2_000, batch_bytes: 300 };
const roomy = { ...small, max_bytes: 1_000_000 };
const lines = (...texts: string[]): SpoolLine[] =>
  texts.map((line) => ({ at: '2026-01-01T00:00:00.000Z', stream: 'stdout', line }));

/** Takes everything, like a server that acknowledges each batch. */
function drain(spool: Spool): { seq: number; line: string }[] {
  const taken: { seq: number; line: string }[] = [];
  for (let batch = spool.batch(); batch; batch = spool.batch()) {
    const parsed = parseLines(batch.body);
    expect(parsed.at(0)?.seq).toBe(batch.first);
    expect(parsed.at(-1)?.seq).toBe(batch.last);
    taken.push(...parsed);
    spool.acknowledge(batch.last);
  }
  return taken;
}

test('lines come out once, in order, without gaps in their numbers, over many segments', () => {
  const spool = openSpool(directory(), systemClock, roomy);
  const texts = Array.from({ length: 60 }, (_, i) => `line ${i}`);
  for (const text of texts) spool.append(lines(text));
  const taken = drain(spool);
  expect(taken.map(({ line }) => line)).toEqual(texts);
  expect(taken.map(({ seq }) => seq)).toEqual(texts.map((_, i) => i + 1));
  expect(spool.batch()).toBeNull();
});

test('offers unacknowledged lines again, from the one after the last acknowledged', () => {
  const spool = openSpool(directory(), systemClock, roomy);
  spool.append(lines('a', 'b', 'c'));
  expect(spool.batch()?.last).toBe(3);
  spool.acknowledge(2);
  expect(spool.batch()).toMatchObject({ first: 3, last: 3 });
});

test('returns a smaller batch on request', () => {
  const spool = openSpool(directory(), systemClock, roomy);
  spool.append(lines('a', 'b', 'c'));
  expect(spool.batch(2)).toMatchObject({ first: 1, last: 2 });
});

test('cuts off a torn last line and reuses its number', () => {
  const dir = directory();
  openSpool(dir, systemClock, roomy).append(lines('a', 'b'));
  const [segment = ''] = readdirSync(dir).filter((name) => name.endsWith('.lines'));
  truncateSync(join(dir, segment), statSync(join(dir, segment)).size - 5);
  const spool = openSpool(dir, systemClock, roomy);
  spool.append(lines('c'));
  expect(drain(spool)).toMatchObject([
    { seq: 1, line: 'a' },
    { seq: 2, line: 'c' },
  ]);
});

test('never reuses an acknowledged number, even if the lines are gone', () => {
  const dir = directory();
  const first = openSpool(dir, systemClock, roomy);
  first.append(lines('a', 'b', 'c'));
  first.acknowledge(3);
  first.close();
  for (const name of readdirSync(dir)) if (name.endsWith('.lines')) rmSync(join(dir, name));
  const spool = openSpool(dir, systemClock, roomy);
  spool.append(lines('d'));
  expect(drain(spool)).toMatchObject([{ seq: 4, line: 'd' }]);
});

test('removes acknowledged segments but keeps the last lines', () => {
  const dir = directory();
  const spool = openSpool(dir, systemClock, roomy);
  for (let i = 0; i < 60; i++) spool.append(lines(`line ${i}`));
  const before = readdirSync(dir).length;
  drain(spool);
  expect(readdirSync(dir).length).toBeLessThan(before);
  expect(spool.tail(3).map(({ line }) => line)).toEqual(['line 57', 'line 58', 'line 59']);
});

describe('when it is full', () => {
  const filled = (dir: string) => {
    const spool = openSpool(dir, systemClock, small);
    for (let i = 1; i <= 200; i++) spool.append(lines(`line ${i}`));
    return spool;
  };
  const bytesIn = (dir: string) => readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);

  test('stays within its bound and records in their place how many lines were dropped', () => {
    const dir = directory();
    const spool = filled(dir);
    expect(bytesIn(dir)).toBeLessThan(small.max_bytes + 2 * small.segment_bytes);
    const [notice, ...rest] = drain(spool);
    const kept = rest.map(({ line }) => Number(line.split(' ')[1]));
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 200 - kept.length + 1 + i));
    expect(notice?.line).toContain(`dropped ${200 - kept.length} lines`);
    expect(notice?.seq).toBe(200 - kept.length);
  });

  test('asks writers to slow down before that', () => {
    const spool = openSpool(directory(), systemClock, small);
    spool.append(lines('a'));
    expect(spool.isCrowded()).toBe(false);
    for (let i = 0; i < 20; i++) spool.append(lines(`line ${i}`));
    expect(spool.isCrowded()).toBe(true);
    drain(spool);
    expect(spool.isCrowded()).toBe(false);
  });

  test('does not ship lines that a crash left beside the record of their loss', () => {
    const dir = directory();
    filled(dir).close();
    const gap = readdirSync(dir).find((name) => name.endsWith('.gap')) ?? '';
    const again = { seq: Number.parseInt(gap, 10), at: '2026-01-01T00:00:00.000Z', stream: 'stdout', line: 'again' };
    writeFileSync(join(dir, gap.replace('.gap', '.lines')), `${JSON.stringify(again)}\n`);
    const taken = drain(openSpool(dir, systemClock, small));
    expect(taken.map(({ line }) => line)).not.toContain('again');
    expect(taken[0]?.line).toContain('dropped');
  });
});

test('counts lines that could not be written, and records the loss as soon as it can', () => {
  let full = false;
  const spool = openSpool(directory(), systemClock, roomy, (file, content, offset) => {
    if (!full) return writeSync(file, content, offset);
    // Like a disk that fills up in the middle of a line.
    if (offset === 0) return writeSync(file, content, 0, 10);
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  });
  spool.append(lines('before'));
  full = true;
  spool.append(lines('lost 1', 'lost 2'));
  spool.append(lines('lost 3'));
  full = false;
  spool.append(lines('after'));
  expect(drain(spool)).toMatchObject([
    { seq: 1, line: 'before' },
    { seq: 2, line: 'dropped 3 lines: the spool could not be written (ENOSPC)' },
    { seq: 3, line: 'after' },
  ]);
});

test('whatever is appended, acknowledged and reopened, nothing is lost, repeated or out of order', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 8 }) }),
    fc.record({ do: fc.constant('ship' as const), part: fc.integer({ min: 0, max: 10 }) }),
    fc.record({ do: fc.constant('reopen' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const dir = directory();
      let spool = openSpool(dir, systemClock, roomy);
      let written = 0;
      const server: { seq: number; line: string }[] = [];
      const take = (all: { seq: number; line: string }[]) => {
        for (const line of all) if (line.seq > (server.at(-1)?.seq ?? 0)) server.push(line);
      };
      for (const one of steps) {
        if (one.do === 'append') {
          spool.append(lines(...Array.from({ length: one.count }, (_, i) => `line ${written + i + 1}`)));
          written += one.count;
        } else if (one.do === 'reopen') {
          // Without closing, as after a kill.
          spool = openSpool(dir, systemClock, roomy);
        } else {
          const batch = spool.batch();
          const parsed = batch ? parseLines(batch.body) : [];
          take(parsed.slice(0, one.part));
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

test('removes every line once the server has them, and numbers continue, also after a restart', () => {
  const dir = directory();
  const spool = openSpool(dir, systemClock, roomy);
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
  expect(spool.forgetAll(), 'a second time').toBe(true);
  spool.append(lines('c'));
  expect(drain(openSpool(dir, systemClock, roomy))).toMatchObject([{ seq: 3, line: 'c' }]);
});
