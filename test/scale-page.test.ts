/** Tests the generated page about scale and the records from which it is generated. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import {
  type BenchmarkRecord,
  type Line,
  merge,
  readRecords,
  recordingRefusal,
  writePage,
  writeRecords,
} from '../bench/page/scale-tables.ts';

const readRepositoryFile = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');

const readAllRecords = async () => readRecords(await readRepositoryFile('../bench/page/scale.jsonl'));

test('the page in docs/ matches the recorded figures', async () => {
  expect(await readRepositoryFile('../docs/explanation/scale.md')).toBe(writePage(await readAllRecords()));
});

test('writes the records file back unchanged', async () => {
  expect(writeRecords(await readAllRecords())).toBe(await readRepositoryFile('../bench/page/scale.jsonl'));
});

const machine = { cores: 2, memory_gb: 8, architecture: 'arm64' };
const recordOf = (benchmark: string, figures: BenchmarkRecord['figures'], notes: string[] = []): BenchmarkRecord => ({
  benchmark,
  machine,
  load: { before: [0.1], after: [1.5] },
  figures,
  notes,
});

test('lists the missed targets at the top, and marks benchmarks without a record', () => {
  const lateness = { what: 'late, p99', value: 2.5, unit: 's', target: 2 } as const;
  const rate = { what: 'beats answered', value: 8_000, unit: 'beats/s', at_least: 7_760 } as const;
  const worst = { what: '… max', value: 9, unit: 's', target: 3 } as const;
  const page = writePage([recordOf('fleet', [rate, lateness, worst], ['limited by nothing'])]);
  expect(page).toContain(
    '1 of 3 targets were met. Missed:\n\n- `fleet`: late, p99: 2.50 s, wanted < 2.00 s\n- `fleet`: late, p99 … max: 9.00 s, wanted < 3.00 s',
  );
  expect(page).toContain('| late, p99 | 2.50 s | < 2.00 s | **missed** |');
  expect(page).toContain('| beats answered | 8000 beats/s | ≥ 7760 beats/s | met |');
  expect(page).toContain('- limited by nothing');
  expect(page).toMatch(/## One heartbeat\n\n.*\n\n```sh\n.*\n```\n\n\*\*Not recorded\.\*\*/);
});

test('replaces a benchmark that is recorded again, and keeps the others', () => {
  const earlierRecords = merge([], [recordOf('operations', []), recordOf('beat', [])]);
  const records = merge(earlierRecords, [recordOf('beat', [], ['again'])]);
  expect(records.map(({ benchmark, notes }) => [benchmark, notes])).toEqual([
    ['beat', ['again']],
    ['operations', []],
  ]);
});

test('names a single machine once, and several machines in each section', () => {
  const largerMachine = { cores: 64, memory_gb: 512, architecture: 'x64' };
  const earlierRecords = [recordOf('beat', []), recordOf('operations', [])];
  expect(writePage(earlierRecords)).toContain(
    'Every figure is from one machine with 2 cores (arm64) and 8 GB of memory.',
  );
  const page = writePage(merge(earlierRecords, [{ ...recordOf('beat', []), machine: largerMachine }]));
  expect(page).toContain('Figures are from several machines');
  expect(page).toMatch(
    /## One heartbeat\n\n.*\n\n```sh\n.*\n```\n\nRecorded on a machine with 64 cores \(x64\) and 512 GB of memory\./,
  );
  expect(page).toMatch(
    /## Allocations at once\n\n.*\n\n```sh\n.*\n```\n\nRecorded on a machine with 2 cores \(arm64\) and 8 GB of memory\./,
  );
});

test('refuses the record of a quick run, and a record without a machine', () => {
  const line: Line = { ...recordOf('beat', []), command: 'bin/run bench/beat.ts', quick: false };
  const quickLine = { ...line, command: 'bin/run bench/beat.ts --quick' };
  expect(recordingRefusal(line)).toBeUndefined();
  expect(recordingRefusal({ ...line, quick: true })).toContain('--quick');
  expect(recordingRefusal(quickLine)).toContain('--quick');
  expect(recordingRefusal({ ...line, machine: undefined })).toContain('on which machine');
  expect(() => readRecords(JSON.stringify(quickLine))).toThrow('beat is of a --quick run');
});

test('marks a record that another command line produced', () => {
  const page = (command: string) => writePage([{ ...recordOf('fleet', []), command }]);
  expect(page('bin/run bench/fleet.ts')).not.toContain('Recorded differently');
  expect(page('bin/run bench/fleet.ts --nodes 5')).toContain(
    '**Recorded differently**, by `bin/run bench/fleet.ts --nodes 5`.',
  );
});
