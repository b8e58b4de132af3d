/** The page about scale shows what was recorded, and says of every target whether it was met. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { merge, type Recorded, readRecords, writePage } from '../bench/scale-tables.ts';

const read = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');

test('the page is what the recorded figures give', async () => {
  const scale = readRecords(await read('../bench/scale.jsonl'));
  expect(await read('../docs/scale.md')).toBe(writePage(scale));
});

const machine = { cores: 2, memory_gb: 8, architecture: 'arm64' };
const recorded = (benchmark: string, figures: Recorded['figures'], notes: string[] = []): Recorded => ({
  benchmark,
  load: { before: [0.1], after: [1.5] },
  figures,
  notes,
});

test('a target that was missed is told first, and one that was not recorded is told as such', () => {
  const late = { what: 'late, p99', value: 2.5, unit: 's', target: 2 } as const;
  const rate = { what: 'beats answered', value: 8_000, unit: 'beats/s', at_least: 7_760 } as const;
  const most = { what: '… max', value: 9, unit: 's', target: 3 } as const;
  const page = writePage(merge(undefined, machine, [recorded('fleet', [rate, late, most], ['limited by nothing'])]));
  expect(page).toContain(
    '1 of 3 targets were met. Missed:\n\n- `fleet`: late, p99: 2.50 s, wanted < 2.00 s\n- `fleet`: late, p99 … max: 9.00 s, wanted < 3.00 s',
  );
  expect(page).toContain('| late, p99 | 2.50 s | < 2.00 s | **missed** |');
  expect(page).toContain('| beats answered | 8000 beats/s | ≥ 7760 beats/s | met |');
  expect(page).toContain('- limited by nothing');
  expect(page).toMatch(/## One beat\n\n.*\n\n\*\*Not recorded\.\*\*/);
});

test('what is recorded again takes the place of what was, and the rest stays', () => {
  const former = merge(undefined, machine, [recorded('operations', []), recorded('beat', [])]);
  const next = merge(former, machine, [recorded('beat', [], ['again'])]);
  expect(next.benchmarks.map(({ benchmark, notes }) => [benchmark, notes])).toEqual([
    ['beat', ['again']],
    ['operations', []],
  ]);
});
