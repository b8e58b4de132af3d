/** Sealed evidence end to end: a server seals by itself, and the command names what somebody did to the database. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCli } from '../../src/cli/testing/run-cli.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';

let server: TestServer;
let dba: Database;
let key_file: string;

beforeAll(async () => {
  server = await inProcessServer();
  dba = openDatabase({ url: server.database_url });
  const { stdout } = await runCli(['keys', 'public', '--data-dir', server.data_dir]);
  key_file = join(server.data_dir, 'public.pem');
  await writeFile(key_file, stdout);
});
afterAll(async () => {
  await dba?.close();
  await server?.stop();
});

const slipway = (...args: string[]) => runCli(args, { server: server.url, env: { SLIPWAY_TOKEN: server.token } });

interface Report {
  evidence: {
    rows: number;
    faults: { code: string; partition: string; cursor: string }[];
    unsealed: { rows: number };
    head: { position: number; hash: string };
    pinned: boolean;
  };
}

async function verify(...args: string[]): Promise<Report['evidence'] & { code: number | null }> {
  const { code, stdout } = await slipway('verify-store', '--json', ...args);
  return { code, ...(JSON.parse(stdout) as Report).evidence };
}

const sealed = () =>
  until('everything to be sealed', async () => {
    const report = await verify();
    return report.unsealed.rows === 0 && report.rows > 0 ? report : undefined;
  });

test('a server seals its evidence by itself, and it verifies with a key from the key file', async () => {
  await server.client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external' } });
  await sealed();
  const report = await verify('--public-key', key_file);
  expect(report).toMatchObject({ code: 0, faults: [], pinned: true });
  const { stdout } = await slipway('verify-store', '--public-key', key_file, '--expect-head', report.head.hash);
  expect(stdout).toMatch(/evidence rows are as sealed, in \d+ checkpoints since 20/);
  expect(stdout).toContain('checked with your public keys');
  expect((await verify('--expect-head', '0'.repeat(64))).faults).toEqual([
    expect.objectContaining({ code: 'head_missing' }),
  ]);
});

test('a deleted row is named with its partition, and the command fails', async () => {
  const { rows } = await sealed();
  await dba.query('create table spare as select * from evidence');
  const [gone] = await dba.query<{ cursor: string; layer: string }>(
    `delete from evidence where (xid, seq) = (select xid, seq from evidence order by xid, seq limit 1)
     returning xid || '-' || seq as cursor, layer`,
  );
  const report = await verify('--public-key', key_file);
  expect(report).toMatchObject({
    code: 1,
    rows: expect.any(Number),
    faults: [{ code: 'row_deleted', partition: gone?.layer, cursor: gone?.cursor }],
  });
  expect(report.rows).toBeGreaterThanOrEqual(rows - 1);
  const { stdout } = await slipway('verify-store');
  expect(stdout).toContain(`${gone?.layer}: row ${gone?.cursor} was deleted`);
  await dba.query(`insert into evidence select * from spare where xid || '-' || seq = $1`, [gone?.cursor]);
  expect((await verify()).faults).toEqual([]);
});

test('a key that nobody knows proves nothing', async () => {
  const other = join(server.data_dir, 'other.json');
  await runCli(['keys', 'rotate', '--key-file', join(server.data_dir, 'keys.json')]);
  await writeFile(
    other,
    JSON.stringify({
      keys: [{ kid: 'x', public_key: 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=' }],
    }),
  );
  const report = await verify('--public-key', other);
  expect(report.code).toBe(1);
  expect(report.faults[0]).toMatchObject({ code: 'checkpoint_unsigned' });
});

test('after a rotation the former public key still verifies: it vouches for the new one', async () => {
  await server.client.call('pool-put', { params: { pool: 'after-rotation' }, body: { driver: 'external' } });
  await sealed();
  expect(await verify('--public-key', key_file)).toMatchObject({ code: 0, faults: [] });
  const keys = await server.client.call('key-list', {});
  expect(keys.keys.map(({ held }) => held)).toEqual([true, true]);
});
