import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { moment } from '../../base/clock.ts';
import {
  findServerProblems,
  formatDays,
  type ServerFacts,
  serverProblemCatalogue,
  serverProblemKey,
  serverProblemSays,
} from './server-problems.ts';

const at = moment(Date.parse('2026-01-10T00:00:00Z'));
const later = (seconds: number) => moment(at.getTime() + seconds * 1000);
const day = 86_400;

const well: ServerFacts = {
  at,
  database: { state: 'ok', detail: null },
  connections: { used: 50, limit: 97 },
  is_short_of_connections: false,
  disk: { free_bytes: 6e9, total_bytes: 1e12 },
  is_short_of_disk: false,
  growth: { bytes_per_day: 6e9 / 7.1, bytes_per_node_day: 1e6, is_on_disk: true },
  files: { used: 100, limit: 1024 },
  heap: { used: 1e8, limit: 2e9 },
  certificate: { starts_at: later(-60 * day), ends_at: later(15 * day) },
  backup: { last_at: later(-2 * day), due_at: later(-day), every_seconds: day, is_failing: true },
  tail_lag_seconds: 1,
  sweeps: [
    { name: 'liveness', every_seconds: 1, last_run_at: later(-299), error: null },
    { name: 'counts', every_seconds: 600, last_run_at: later(-1700), error: null },
    { name: 'housekeeping', every_seconds: 3600, last_run_at: null, error: null },
  ],
  started_at: later(-1800),
  restoration: null,
  clock_step: { seconds: 3600, at: later(-3601) },
};
const codes = (facts: Partial<ServerFacts>) => findServerProblems({ ...well, ...facts }).map(({ code }) => code);

test('finds nothing if all is well', () => {
  expect(findServerProblems(well)).toEqual([]);
  expect(codes({ database: { state: 'slow', detail: 'no answer within 2 s' } })).toEqual([]);
  expect(codes({ connections: null, disk: null, growth: null, files: null, certificate: null, backup: null })).toEqual(
    [],
  );
});

test.each<[string, Partial<ServerFacts>, string]>([
  ['connections_low', { connections: { used: 90, limit: 97 } }, '90 of 97 connections are in use'],
  [
    'connections_low',
    { connections: null, is_short_of_connections: true },
    'the database refuses connections; new work is refused',
  ],
  ['disk_low', { growth: null, disk: { free_bytes: 4.9e9, total_bytes: 1e12 } }, '5 GiB of 931 GiB are free'],
  ['disk_low', { growth: null, disk: { free_bytes: 9e8, total_bytes: 1e10 } }, '858 MiB of 9 GiB are free'],
  [
    'disk_low',
    { growth: null, disk: { free_bytes: 1e8, total_bytes: 1e10 }, is_short_of_disk: true },
    '95 MiB of 9 GiB are free; new work is refused',
  ],
  [
    'disk_full',
    { database: { state: 'disk_full', detail: 'the disk of the database is full' }, is_short_of_disk: true },
    'the disk of the database is full',
  ],
  [
    'disk_filling',
    { growth: { bytes_per_day: 1.1e9, bytes_per_node_day: null, is_on_disk: true } },
    'full in 5 days at the present rate: the database grows by 1 GiB a day, and 6 GiB are free',
  ],
  ['files_low', { files: { used: 922, limit: 1024 } }, '922 of 1024 file descriptors are in use'],
  ['memory_low', { heap: { used: 16e8, limit: 2e9 } }, '80 % of the heap of 2 GiB are in use'],
  [
    'certificate_ending',
    { certificate: { starts_at: later(-60 * day), ends_at: later(13 * day) } },
    'it ends at 2026-01-23T00:00:00.000Z',
  ],
  [
    'certificate_expired',
    { certificate: { starts_at: later(-60 * day), ends_at: at } },
    'it ended at 2026-01-10T00:00:00.000Z',
  ],
  [
    'backup_old',
    { backup: { last_at: later(-2 * day - 1), due_at: later(-day - 1), every_seconds: day, is_failing: false } },
    'the last one is of 2026-01-07T23:59:59.000Z; the next was due at 2026-01-08T23:59:59.000Z',
  ],
  [
    'backup_old',
    { backup: { last_at: null, due_at: later(-1), every_seconds: day, is_failing: true } },
    'none has been taken; the first was due at 2026-01-09T23:59:59.000Z',
  ],
  ['tail_behind', { tail_lag_seconds: 11.2 }, 'this replica lacks the facts of the last 11 s'],
  [
    'sweep_failing',
    { sweeps: [{ name: 'drift', every_seconds: 60, last_run_at: at, error: 'no such column' }] },
    'drift: no such column',
  ],
  [
    'sweep_stalled',
    { sweeps: [{ name: 'drift', every_seconds: 1, last_run_at: later(-301), error: null }] },
    'drift last ran at 2026-01-09T23:54:59.000Z',
  ],
  [
    'sweep_stalled',
    { sweeps: [{ name: 'drift', every_seconds: 1, last_run_at: null, error: null }] },
    'drift has not run yet',
  ],
  [
    'database_restored',
    { restoration: { began_at: later(-60), remembers_until: later(-3600) } },
    `its rows end at ${later(-3600).toISOString()}; nothing is launched, released or judged`,
  ],
  [
    'database_restored',
    { restoration: { began_at: later(-60), remembers_until: null } },
    'nothing is launched, released or judged',
  ],
  [
    'clock_stepped',
    { clock_step: { seconds: -3600, at: later(-60) } },
    'it jumped by -3600 s; this replica follows it, and no machine is blamed for the step',
  ],
])('finds %s', (code, facts, says) => {
  const problems = findServerProblems({ ...well, ...facts });
  expect(problems.map((problem) => [problem.code, serverProblemSays(problem)])).toEqual([[code, says]]);
});

test('warns about a short-lived certificate in the last third of its lifetime', () => {
  const starts_at = later(-6 * 3600);
  expect(codes({ certificate: { starts_at, ends_at: later(18 * 3600) } })).toEqual([]);
  expect(codes({ certificate: { starts_at, ends_at: later(2 * 3600) } })).toEqual(['certificate_ending']);
});

test('forecasts a full disk only if the database on this disk grows', () => {
  const growth = { bytes_per_day: 5e9, bytes_per_node_day: 1e6, is_on_disk: true };
  expect(codes({ growth })).toEqual(['disk_filling']);
  expect(codes({ growth: { ...growth, is_on_disk: false } })).toEqual([]);
  expect(codes({ growth: { ...growth, bytes_per_day: -5e9 } })).toEqual([]);
  expect(codes({ growth, disk: null })).toEqual([]);
});

test.each([
  [0.2, 'less than a day'],
  [1.9, '1 day'],
  [6.99, '6 days'],
])('says %f days as %s', (days, said) => expect(formatDays(days)).toBe(said));

test('gives the first backup one interval after it is due', () => {
  const first = { last_at: null, every_seconds: day, is_failing: false };
  expect(codes({ backup: { ...first, due_at: later(-day) } })).toEqual([]);
  expect(codes({ backup: { ...first, due_at: later(-day - 1) } })).toEqual(['backup_old']);
});

test('names only the database while it cannot be used', () => {
  const sweeps = [{ name: 'drift', every_seconds: 1, last_run_at: null, error: 'connection failed' }];
  const database = { state: 'read_only', detail: 'the database accepts no writes' };
  expect(codes({ database, sweeps, tail_lag_seconds: 100 })).toEqual(['database_unusable']);
});

test('keeps the identity of a problem while its figures change', () => {
  const keys = [
    serverProblemKey({ code: 'files_low', used: 1, limit: 2 }),
    serverProblemKey({ code: 'files_low', used: 2, limit: 2 }),
    serverProblemKey({ code: 'sweep_stalled', sweep: 'drift', last_run_at: null }),
    serverProblemKey({ code: 'sweep_stalled', sweep: 'counts', last_run_at: null }),
  ];
  expect(new Set(keys).size).toBe(3);
  for (const { title, remedy } of Object.values(serverProblemCatalogue))
    expect([title, remedy].join(' ')).toMatch(/^[A-Z].*\.$/);
});

test('the page for operators lists every problem', () => {
  const page = readFileSync(new URL('../../../docs/how-to/troubleshooting.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code);
  expect(listed).toEqual(Object.keys(serverProblemCatalogue));
});
