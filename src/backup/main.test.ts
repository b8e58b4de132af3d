/** Tests the programs as an operator runs them: on embedded databases and with a large table. */
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runBackupProgram, runBackupProgramWith } from '../../test/support/backup-program.ts';
import { emptyDatabase, execute, type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { systemClock } from '../base/clock.ts';
import { openKeyRing } from '../base/credentials/key-ring.ts';
import { openDatabase } from '../store/pg/database.ts';
import { startEmbeddedPostgres } from '../store/pg/embedded/embedded.ts';
import { volatileSettings } from '../store/pg/embedded/settings.ts';

let directory: string;
let keyFile: string;
let source: TestDatabase;
const place = (name: string) => join(directory, name);

const start = (name: string) =>
  startEmbeddedPostgres({ dataDir: place(name), clock: systemClock, settings: volatileSettings });

async function countersIn(url: string): Promise<string[]> {
  const db = openDatabase({ url, max_connections: 1 });
  try {
    return (await db.query<{ status: string }>('select status from counts order by status')).map(
      ({ status }) => status,
    );
  } finally {
    await db.close();
  }
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-backup-program-'));
  await chmod(directory, 0o711);
  keyFile = place('keys.json');
  source = await testDatabase();
  const db = openDatabase({ url: source.url, max_connections: 1 });
  await db.query(`insert into counts (of, status, change) values ('nodes', 'kept', 1)`);
  await db.close();
});

afterAll(async () => {
  await source.drop();
  await rm(directory, { recursive: true, force: true });
});

test('moves all rows from an external database through an embedded one to another external one', async () => {
  const file = place('first');
  const taken = await runBackupProgram('backup', '--database-url', source.url, '--to', file, '--key-file', keyFile);
  expect(taken.output).toContain(`Created the key file ${keyFile}`);
  expect(taken).toMatchObject({ code: 0, result: { file, deleted: [] } });
  const verified = await runBackupProgram('backup', 'verify', file, '--key-file', keyFile);
  expect(verified).toMatchObject({ code: 0, result: { rows: taken.result?.rows } });

  const restored = await runBackupProgram('restore', file, '--data-dir', place('a'), '--key-file', keyFile);
  expect(restored, restored.output).toMatchObject({ code: 0 });
  // The restore adds an era, the fact that marks it, and a restoration.
  const rows = Number(taken.result?.rows) + 3;
  const running = await start('a');
  const target = await emptyDatabase();
  try {
    expect(await countersIn(running.url)).toEqual(['kept']);
    // While a server runs on a database, the database can be backed up, but it cannot be moved, and
    // no backup can be restored into it.
    const online = await runBackupProgram(
      'backup',
      '--data-dir',
      place('a'),
      '--to',
      place('second'),
      '--key-file',
      keyFile,
    );
    expect(online, online.output).toMatchObject({ code: 0, result: { rows } });
    for (const args of [
      ['move-database', '--data-dir', place('a'), '--to', target.url],
      ['restore', file, '--data-dir', place('a'), '--key-file', keyFile],
    ]) {
      const refused = await runBackupProgram(...args);
      expect(refused.output).toContain('data_directory_owned');
      expect(refused.code).toBe(1);
    }
    expect(await countersIn(running.url)).toEqual(['kept']);
  } finally {
    await running.stop();
  }

  const toTarget = { SLIPWAY_TARGET_DATABASE_URL: target.url };
  const moved = await runBackupProgramWith(toTarget, 'move-database', '--data-dir', place('a'));
  expect(moved, moved.output).toMatchObject({ code: 0, result: { rows } });
  expect(await countersIn(target.url)).toEqual(['kept']);
  // The embedded database has stopped and is unchanged. It starts after a person deletes the mark.
  await expect(start('a')).rejects.toMatchObject({ code: 'data_directory_moved' });
  await rm(join(place('a'), 'postgres.moved'));
  const after = await start('a');
  expect(await countersIn(after.url)).toEqual(['kept']);
  await after.stop();
  await target.drop();
}, 240_000);

test.for<[string, string[], number, string]>([
  ['no database', ['backup', '--data-dir', 'none'], 4, 'database_missing'],
  ['a key file that is missing', ['backup', 'verify', 'FILE', '--key-file', 'none'], 2, 'none'],
  ['a file that is no backup', ['backup', 'verify', 'FILE', '--key-file', 'KEYS'], 4, 'not_a_backup'],
  [
    'a missing directory',
    ['backup', '--database-url', 'URL', '--to', 'none/', '--key-file', 'KEYS'],
    1,
    'cannot be used',
  ],
  ['a missing file', ['restore', 'none', '--data-dir', 'none', '--key-file', 'KEYS'], 1, 'cannot be used'],
  ['no target', ['restore', 'FILE'], 2, '--database-url, SLIPWAY_TARGET_DATABASE_URL or --data-dir'],
  ['no target of a move', ['move-database', '--data-dir', 'none'], 2, '--to or SLIPWAY_TARGET_DATABASE_URL'],
  ['an unknown flag', ['restore', 'FILE', '--force'], 2, '--force'],
  ['a number below the minimum', ['backup', '--keep', '0'], 2, '--keep'],
  ['a database that does not answer', ['backup', '--database-url', 'AWAY', '--key-file', 'KEYS'], 1, 'does not answer'],
  ['no key file', ['backup', '--database-url', 'URL', '--data-dir', 'none'], 2, '--key-file'],
])('explains %s', async ([, args, code, text]) => {
  await writeFile(place('FILE'), 'a file of somebody else');
  openKeyRing(place('KEYS'), systemClock);
  const named: Record<string, string> = {
    FILE: place('FILE'),
    KEYS: place('KEYS'),
    URL: source.url,
    AWAY: 'postgres://a@127.0.0.1:1/a',
    none: place('none'),
    'none/': place('none/file'),
  };
  const run = await runBackupProgram(...args.map((arg) => named[arg] ?? arg));
  expect(run.output).toContain(text);
  expect(run.code).toBe(code);
  expect(existsSync(place('none'))).toBe(false);
});

test('a restore does not take the database of the server for its target', async () => {
  const env = { SLIPWAY_OWNER_DATABASE_URL: source.url, SLIPWAY_DATABASE_URL: source.url };
  const run = await runBackupProgramWith(env, 'restore', place('first'), '--key-file', keyFile);
  expect(run.output).toContain('SLIPWAY_TARGET_DATABASE_URL');
  expect(run.code).toBe(2);
});

test('needs little memory for a large table', async () => {
  const large = await testDatabase();
  const target = await emptyDatabase();
  const megabytes = 200;
  try {
    await execute(large.url, 'select 1');
    const db = openDatabase({ url: large.url, max_connections: 1 });
    // COPY writes each byte as two digits.
    await db.query(
      `insert into node_log_chunks
         (node_instance_id, last_seq, node_id, first_seq, last_at, lines, raw_bytes, packing, content)
       select 'inst_1', n, 'node_1', n, now(), 1, 1, 'none',
         decode((select string_agg(md5(n::text || part), '') from generate_series(1, 32) part) || repeat('00', 523776), 'hex')
       from generate_series(1, $1 / 2) n`,
      [megabytes],
    );
    await db.close();
    const file = place('large');
    const runs = [
      await runBackupProgram('backup', '--database-url', large.url, '--to', file, '--key-file', keyFile),
      await runBackupProgram('backup', 'verify', file, '--key-file', keyFile),
      await runBackupProgramWith({ SLIPWAY_TARGET_DATABASE_URL: target.url }, 'restore', file, '--key-file', keyFile),
    ];
    for (const { code, output } of runs) expect(code, output).toBe(0);
    const peaks = runs.map(({ peak_bytes }) => Math.round(peak_bytes / 2 ** 20));
    process.stdout.write(`${megabytes} MB of rows: backup, verify and restore had at most ${peaks.join(', ')} MB\n`);
    for (const peak of peaks) expect(peak).toBeLessThan(megabytes);
  } finally {
    await large.drop();
    await target.drop();
  }
}, 400_000);
