/** Tests which drafts of killed backups are deleted. */
import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { openDirectory } from './directory.ts';
import { isBackupOf } from './storage.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-drafts-'));
});
afterEach(() => rm(directory, { recursive: true }));

const day = 86_400;
const backup = 'slipway-1-2026-01-01T00-00-00-000Z.slipway-backup';

async function place(name: string, ageSeconds: number): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, 'x');
  const at = systemClock.nowMs() / 1000 - ageSeconds;
  await utimes(path, at, at);
  return path;
}

test('deletes drafts of this installation and of the same file, a day after their last write', async () => {
  const abandoned = [
    await place(`.${backup}.0123456789ab`, day + 60),
    await place('.by-hand.0123456789ab', 30 * day),
  ].sort();
  const others = [
    [`.${backup}.ba9876543210`, day - 60],
    [backup, 30 * day],
    ['.slipway-2-2026-01-01T00-00-00-000Z.slipway-backup.0123456789ab', 30 * day],
    [`.${backup}.0123`, 30 * day],
    [`${backup}.0123456789ab`, 30 * day],
    ['.other.0123456789ab', 30 * day],
    ['.bashrc', 30 * day],
  ] as const;
  for (const [name, age] of others) await place(name, age);
  const isOurs = (name: string) => name === 'by-hand' || isBackupOf(name, 'slipway-1');
  const removed = await openDirectory(directory).removeAbandoned(isOurs, systemClock.nowMs());
  expect(removed.sort()).toEqual(abandoned);
  expect((await readdir(directory)).sort()).toEqual(others.map(([name]) => name).sort());
});
