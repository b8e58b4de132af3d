/** Tests scheduled backups of a real database into a real directory. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { memoryKeyRing } from '../../test/support/key-ring.ts';
import { until } from '../../test/support/until.ts';
import { now, systemClock } from '../base/clock.ts';
import { createLog } from '../base/telemetry/log.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { openDatabase } from '../store/pg/database.ts';
import { scheduleBackups } from './scheduled-backups.ts';

const every_seconds = 86_400;
let database: TestDatabase;
let directory: string;
let errors: string[];
const key_ring = memoryKeyRing();
const stops: (() => Promise<void>)[] = [];

beforeEach(async () => {
  database = await testDatabase();
  const db = openDatabase({ url: database.url, max_connections: 1 });
  await db.query(`insert into installation (installation_id, enrollment_secret, session_secret, created_at)
    values ('slipway-test', '', '', now())`);
  await db.close();
  directory = await mkdtemp(join(tmpdir(), 'slipway-scheduled-'));
  errors = [];
});

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

/** Backups carry the time of PostgreSQL, so the virtual clock begins at the time of this host. */
function begin({ to = directory, keep = 2, clock = virtualClock(systemClock.nowMs()) } = {}) {
  const backups = scheduleBackups({
    schedule: { to, s3_endpoint: null, every_seconds, keep },
    url: database.url,
    installation_id: 'slipway-test',
    key_ring,
    clock,
    log: createLog({ level: 'error', destination: { write: (line: string) => void errors.push(line) } }),
  });
  stops.push(backups.stop);
  backups.start();
  return { backups, clock };
}

/** A backup is written to a draft first, whose name starts with a dot. */
const files = async (): Promise<string[]> => (await readdir(directory)).filter((name) => !name.startsWith('.')).sort();
const waitForFiles = (count: number) => until(`${count} backups`, async () => (await files()).length === count);

test('takes a backup at the start, none after a restart, the next when it is due, and deletes old ones', async () => {
  const { backups, clock } = begin();
  await waitForFiles(1);
  await until('the next wait', () => clock.pendingTimers() === 1);
  expect(backups.ageSeconds()).toBeLessThan(60);
  const { last_at, due_at, is_failing } = backups.state();
  expect([due_at.getTime() - (last_at?.getTime() ?? 0), is_failing]).toEqual([every_seconds * 1000, false]);
  await backups.stop();

  const first = await files();
  const { backups: again, clock: later } = begin({ clock });
  await until('the wait', () => later.pendingTimers() === 1);
  expect(await files()).toEqual(first);
  await later.advance((every_seconds / 2) * 1000);
  expect(again.ageSeconds()).toBeGreaterThan(every_seconds / 2 - 60);
  expect(await files()).toEqual(first);
  // The clock began some seconds before the first backup was taken.
  await later.advance((every_seconds / 2 + 120) * 1000);
  await waitForFiles(2);
  expect(errors).toEqual([]);
});

test('takes one backup for all replicas that share the directory', async () => {
  const replicas = [begin({ keep: 9 }), begin({ keep: 9 }), begin({ keep: 9 })];
  const allWait = () => replicas.every(({ clock }) => clock.pendingTimers() === 1);
  await until('every replica to wait', allWait);
  expect(await files()).toHaveLength(1);
  // The replicas that did not get the turn check again after a minute, and find the backup.
  const uninformed = () => replicas.filter(({ backups }) => backups.state().last_at === null);
  await until('every replica to find the backup', async () => {
    await Promise.all(uninformed().map(({ clock }) => clock.advance(60_000)));
    return uninformed().length === 0;
  });
  expect(await files()).toHaveLength(1);
  expect(errors).toEqual([]);
});

test('counts the age from the start while every backup fails, and retries', async () => {
  const to = join(directory, 'missing', 'place/');
  const { backups, clock } = begin({ to });
  const due_at = now(clock);
  await until('the first failure', () => errors.length === 1 && clock.pendingTimers() === 1);
  await clock.advance(900_000);
  await until('the second failure', () => errors.length === 2);
  expect(backups.ageSeconds()).toBe(900);
  expect(backups.state()).toEqual({ last_at: null, due_at, every_seconds, is_failing: true });
});

test('takes backups although the directory has an unreadable file', async () => {
  await mkdir(join(directory, 'slipway-test-2999-01-01T00-00-00-000Z.slipway-backup'));
  begin({ keep: 9 });
  await waitForFiles(2);
  expect(errors).toEqual([]);
});

test('takes backups although the newest one is dated in the future', async () => {
  const { backups } = begin();
  await waitForFiles(1);
  await backups.stop();
  // For a server whose clock is behind, the file and the time of the database are in the future.
  const { clock } = begin({ keep: 9, clock: virtualClock(systemClock.nowMs() - 60 * every_seconds * 1000) });
  await waitForFiles(2);
  await until('the wait', () => clock.pendingTimers() === 1);
  await clock.advance(every_seconds * 1000);
  await waitForFiles(3);
  expect(errors).toEqual([]);
});
