/** Tests `slipway upgrade --check` as people run it: its text, its JSON and its exit status. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { contractStep, migrateAsNext } from '../../test/support/next-version.ts';
import { spawnMain } from '../../test/support/server.ts';
import { packageRoot, packageVersion } from '../base/files/package-root.ts';
import { knownSchema } from '../store/upgrade/migration-steps.ts';

let database: TestDatabase;
let folder: string;
beforeEach(async () => {
  database = await testDatabase();
  folder = await mkdtemp(join(tmpdir(), 'slipway-upgrade-'));
});
afterEach(async () => {
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const upgrade = (...args: string[]) =>
  spawnSync(join(packageRoot, 'bin/slipway'), ['upgrade', ...args], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });

test('prints the report, and exits with 0 when nothing stands in the way', () => {
  const { stdout, stderr, status } = upgrade('--check', '--database-url', database.url);
  expect(stderr).toBe('');
  expect(stdout).toBe(`  Slipway ${packageVersion()} on this database

  Schema      ${knownSchema} in the database, ${knownSchema} in this version
  Migrations  none
  Rollback    yes, by starting the earlier version again
  Disk        needs 0 MB, free space unknown
  Replicas    none runs
  Agents      none

  Ready: this version can start on the database.
`);
  expect(status).toBe(0);
});

test('exits with 2 when the start would be refused, and prints JSON', async () => {
  await migrateAsNext(database.url, contractStep);
  const { stdout, status } = upgrade('--check', '--json', '--database-url', database.url);
  expect(JSON.parse(stdout)).toMatchObject({
    verdict: 'refused',
    findings: [{ code: 'schema_too_new', needs: knownSchema + 1 }],
  });
  expect(status).toBe(2);
  expect(upgrade('--check', '--database-url', database.url).stdout).toContain('This version is too old for the schema');
});

test('exits with 2 for wrong arguments and an unreachable database', () => {
  const bare = upgrade('--database-url', database.url);
  expect(bare).toMatchObject({ status: 2, stdout: '' });
  expect(bare.stderr).toContain('--check is required');
  expect(upgrade('--check', '--wrong').stderr).toContain('Usage: slipway upgrade');
  const closed = upgrade('--check', '--database-url', 'postgres://nobody@127.0.0.1:1/none');
  expect(closed).toMatchObject({ status: 2 });
  expect(closed.stderr).toContain('the database does not answer');
  const empty = upgrade('--check', '--data-dir', folder);
  expect(empty.stderr).toContain(`${folder} holds no database`);
  expect(empty.status).toBe(2);
});

test('checks the embedded database while its server runs, and after the server stopped', async () => {
  const server = await spawnMain(['--port', '0', '--data-dir', folder]);
  const running = upgrade('--check', '--json', '--data-dir', folder);
  expect(JSON.parse(running.stdout)).toMatchObject({ verdict: 'ready', replicas: [{ address: server.url }] });
  expect(JSON.parse(running.stdout).disk.free_bytes).toBeGreaterThan(0);
  await server.end('SIGTERM');
  const stopped = upgrade('--check', '--json', '--data-dir', folder);
  expect(JSON.parse(stopped.stdout)).toMatchObject({ verdict: 'ready', replicas: [] });
  expect([running.status, stopped.status]).toEqual([0, 0]);
});

test('the commands of docs/how-to/upgrade.md work', async () => {
  const page = await readFile(join(packageRoot, 'docs/how-to/upgrade.md'), 'utf8');
  const commands = page.split('\n').filter((line) => line.startsWith('slipway upgrade'));
  expect(commands).toHaveLength(2);
  const server = await spawnMain(['--port', '0', '--data-dir', folder]);
  for (const command of commands) {
    const inTest = command.replace('/var/lib/slipway', folder).replace(/^slipway/, join(packageRoot, 'bin/slipway'));
    const env = { PATH: process.env.PATH, SLIPWAY_DATABASE_URL: database.url };
    expect(spawnSync('sh', ['-c', inTest], { encoding: 'utf8', env }), command).toMatchObject({ status: 0 });
  }
  await server.end('SIGTERM');
});
