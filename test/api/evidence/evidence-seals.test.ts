/**
 * Tests sealed evidence end to end. The server seals evidence by itself, and `slipway verify-store`
 * finds what was changed in the database.
 */
import { generateKeyPairSync } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCli, startCli } from '../../../src/cli/testing/run-cli.ts';
import type { Client, RequestRefused } from '../../../src/contract/client.ts';
import type { Certificate } from '../../../src/contract/evidence/certificate.ts';
import { signCheckpoint } from '../../../src/contract/evidence/integrity/checkpoint.ts';
import { type Database, openDatabase } from '../../../src/store/pg/database.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: TestServer;
let dba: Database;
let key_file: string;

beforeAll(async () => {
  server = await inProcessServer();
  dba = openDatabase({ url: server.database_url });
  key_file = await exportPublicKeys('public.pem');
});

/** Writes the public keys to a file, as an operator keeps them elsewhere. */
async function exportPublicKeys(name: string): Promise<string> {
  const { stdout } = await runCli(['keys', 'public', '--data-dir', server.data_dir]);
  const file = join(server.data_dir, name);
  await writeFile(file, stdout);
  return file;
}

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

const waitForSeals = () =>
  until('everything to be sealed', async () => {
    const report = await verify();
    return report.unsealed.rows === 0 && report.rows > 0 ? report : undefined;
  });

test('seals evidence by itself, and the evidence verifies with the exported public key', async () => {
  await server.client.call('pool-put', { params: { pool: 'outside' }, body: { driver: 'external' } });
  await waitForSeals();
  const report = await verify('--public-key', key_file);
  expect(report).toMatchObject({ code: 0, faults: [], pinned: true });
  const { stdout } = await slipway('verify-store', '--public-key', key_file, '--expect-head', report.head.hash);
  expect(stdout).toMatch(/evidence rows are as sealed, in \d+ checkpoints since 20/);
  expect(stdout).toContain('checked with your public keys');
  expect((await verify('--expect-head', '0'.repeat(64))).faults).toEqual([
    expect.objectContaining({ code: 'head_missing' }),
  ]);
});

test('verify-store fails after a row was deleted, and names the row and its partition', async () => {
  const { rows } = await waitForSeals();
  await dba.query('create table spare as select * from evidence');
  const [deletedRow] = await dba.query<{ cursor: string; layer: string }>(
    `delete from evidence where (xid, seq) = (select xid, seq from evidence order by xid, seq limit 1)
     returning xid || '-' || seq as cursor, layer`,
  );
  const report = await verify('--public-key', key_file);
  expect(report).toMatchObject({
    code: 1,
    rows: expect.any(Number),
    faults: [{ code: 'row_deleted', partition: deletedRow?.layer, cursor: deletedRow?.cursor }],
  });
  expect(report.rows).toBeGreaterThanOrEqual(rows - 1);
  const { stdout } = await slipway('verify-store');
  expect(stdout).toContain(`${deletedRow?.layer}: row ${deletedRow?.cursor} was deleted`);
  await dba.query(`insert into evidence select * from spare where xid || '-' || seq = $1`, [deletedRow?.cursor]);
  expect((await verify()).faults).toEqual([]);
});

test('verify-store rejects seals if only an unknown key is given', async () => {
  const unknownKeyFile = join(server.data_dir, 'other.json');
  await runCli(['keys', 'rotate', '--key-file', join(server.data_dir, 'keys.json')]);
  await writeFile(
    unknownKeyFile,
    JSON.stringify({
      keys: [{ kid: 'x', public_key: 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=' }],
    }),
  );
  const report = await verify('--public-key', unknownKeyFile);
  expect(report.code).toBe(1);
  expect(report.faults[0]).toMatchObject({ code: 'checkpoint_unsigned' });
});

test('verify-store does not trust a key that was planted in the database', async () => {
  await waitForSeals();
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const plantedKey = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  await dba.query(`insert into evidence_keys values ('key_planted', $1, 1, now())`, [plantedKey]);
  const [first] = await dba.query<{ body: string; signature: Buffer }>(
    'select body, signature from evidence_checkpoints where position = 2',
  );
  const sign = (signature: Buffer | undefined) =>
    dba.query('update evidence_checkpoints set signature = $1 where position = 2', [signature]);
  await sign(signCheckpoint(first?.body ?? '', privateKey));
  await until('the planted key to be listed', async () => {
    const { keys } = await server.client.call('key-list', {});
    return keys.some(({ kid, held }) => kid === 'key_planted' && !held);
  });
  expect((await verify()).faults).toEqual([expect.objectContaining({ code: 'checkpoint_unsigned', checkpoint: 2 })]);
  const { stdout } = await slipway('verify-store');
  expect(stdout).toContain("checked with the keys of the server's key file");
  expect(stdout).toContain('The keys come from the server itself');
  await sign(first?.signature);
  await dba.query(`delete from evidence_keys where kid = 'key_planted'`);
  expect(await verify()).toMatchObject({ code: 0, faults: [] });
});

test('verify-store accepts the former public key after a rotation, because that key endorsed the new one', async () => {
  await server.client.call('pool-put', { params: { pool: 'after-rotation' }, body: { driver: 'external' } });
  await waitForSeals();
  expect(await verify('--public-key', key_file)).toMatchObject({ code: 0, faults: [] });
  await until('the new key to be listed', async () => {
    const { keys } = await server.client.call('key-list', {});
    return keys.length === 2 && keys.every(({ held }) => held);
  });
});

let tenant: Client;
async function tenantClient(): Promise<Client> {
  if (!tenant) {
    const createdToken = await server.client.call('token-create', {
      body: { name: 'acme', role: 'operator', tenant: 'acme' },
    });
    tenant = server.as(createdToken.token ?? '');
  }
  return tenant;
}

async function createReleasedAllocation(pool: string): Promise<string> {
  const { allocation } = await (await tenantClient()).call('allocation-create', { body: { pool } });
  const id = allocation.allocation_id;
  if (pool === 'local')
    await until(
      'the allocation to be active',
      async () => {
        const { status } = await server.client.call('allocation-get', { params: { id } });
        return status === 'active';
      },
      { seconds: 60 },
    );
  await server.client.call('allocation-release', { params: { id }, body: { reason: 'for a test' } });
  await until(
    'the allocation to be released',
    async () => {
      const { status } = await server.client.call('allocation-get', { params: { id } });
      return status === 'released';
    },
    { seconds: 60 },
  );
  return id;
}

test('issues a certificate that verifies offline, and fails with one flipped byte', async () => {
  const id = await createReleasedAllocation('local');
  const file = join(server.data_dir, 'certificate.json');
  expect(await slipway('certificate', id, '--output', file)).toMatchObject({ code: 0 });
  const bytes = await readFile(file);
  const certificate = JSON.parse(bytes.toString()) as Certificate;
  expect(certificate).toMatchObject({
    allocation_id: id,
    tenant: 'acme',
    pool: 'local',
    release: 'proven',
    residue: [],
    instances: [{ driver: 'local', spec_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }],
  });
  expect(certificate.proofs.length).toBeGreaterThan(0);
  // No server listens at the address in `offline`, so the command cannot call one. An earlier test
  // rotated the key, and the certificate holds no endorsement, so the newest key is needed.
  const newestKeys = await exportPublicKeys('rotated.pem');
  const offline = (path: string) =>
    runCli(['verify', path, '--public-key', newestKeys], { server: 'http://127.0.0.1:9' });
  expect(await offline(file)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`Valid: ${id} of tenant acme`),
  });
  const brokenBytes = Buffer.from(bytes);
  brokenBytes[bytes.length >> 1] = (brokenBytes[bytes.length >> 1] ?? 0) ^ 1;
  await writeFile(`${file}.broken`, brokenBytes);
  expect(await offline(`${file}.broken`)).toMatchObject({ code: 1, stdout: expect.stringContaining('INVALID') });
  // The certificate names its row in the store.
  const [row] = await dba.query<{ kind: string; allocation_id: string }>(
    `select kind, allocation_id from evidence where layer = $1 and xid || '-' || seq = $2`,
    [certificate.chain.partition, certificate.chain.cursor],
  );
  expect(row).toEqual({ kind: 'allocation.released', allocation_id: id });
}, 120_000);

test('issues no certificate if retention may have dropped the proofs', async () => {
  const id = await createReleasedAllocation('local');
  const issue = () => server.client.call('allocation-certificate', { params: { id } });
  await until('the certificate to be issued', () => issue().catch(() => undefined));
  const [operation] = await dba.query<{ created_at: Date }>(
    `select created_at from operations where allocation_id = $1 and kind = 'allocation-release'`,
    [id],
  );
  const beganMs = operation?.created_at.getTime() ?? 0;
  const cut = async (layer: string, before: Date) => {
    await dba.transaction(async (tx) => {
      // Retention takes months. This mode skips the trigger that requires a signed checkpoint for a
      // cut.
      await tx.query(`set local session_replication_role = 'replica'`);
      await tx.query(
        `insert into evidence_cuts (piece, layer, before, cut_at, facts) values ('test', $1, $2, now(), 0)`,
        [layer, before],
      );
    });
    const answer = await issue().then(
      (certificate) => certificate.release,
      (error: RequestRefused) => error.problem.code,
    );
    await dba.query(`delete from evidence_cuts where piece = 'test'`);
    return answer;
  };
  expect(await cut('provider', new Date(beganMs + 1))).toBe('evidence_cut');
  expect(await cut('node', new Date(beganMs + 1))).toBe('evidence_cut');
  // A cut before the release began, or in another layer, removes no proofs.
  expect(await cut('provider', new Date(beganMs))).toBe('proven');
  expect(await cut('transport', new Date(beganMs + 1))).toBe('proven');
}, 120_000);

test('issues no certificate before the release, and issues one to the tenant afterwards', async () => {
  const { allocation } = await (await tenantClient()).call('allocation-create', { body: { pool: 'outside' } });
  const params = { id: allocation.allocation_id };
  await expect(server.client.call('allocation-certificate', { params })).rejects.toMatchObject({
    problem: { code: 'allocation_not_released', status: 409 },
  });
  const id = await createReleasedAllocation('outside');
  const certificate = await until('the certificate to be issued', async () =>
    (await tenantClient()).call('allocation-certificate', { params: { id } }).catch(() => undefined),
  );
  expect(certificate).toMatchObject({ release: 'no_machine', node_id: null, proofs: [] });
});

test('exports evidence that verifies offline, can be resumed, and reveals a changed or removed line', async () => {
  await waitForSeals();
  const file = join(server.data_dir, 'evidence.jsonl');
  expect((await slipway('export', '--output', file)).code).toBe(0);
  const offline = async (path: string) => {
    const { code, stdout } = await runCli(['verify', path, '--public-key', key_file, '--json'], {
      server: 'http://127.0.0.1:9',
    });
    return {
      code,
      ...(JSON.parse(stdout) as { faults: { code: string; cursor: string }[]; rows: number; uncovered: number }),
    };
  };
  const fullCheck = await offline(file);
  expect(fullCheck).toMatchObject({ code: 0, faults: [], uncovered: 0 });

  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '') as { type: string; body: string };
  expect(last.type).toBe('checkpoint');
  await server.client.call('pool-put', { params: { pool: 'later' }, body: { driver: 'external' } });
  await waitForSeals();
  const { through } = JSON.parse(last.body) as { through: string };
  expect((await slipway('export', '--since', through, '--output', file)).code).toBe(0);
  const resumedCheck = await offline(file);
  expect(resumedCheck).toMatchObject({ code: 0, faults: [] });
  expect(resumedCheck.rows).toBeGreaterThan(fullCheck.rows);

  const rowAt = lines.findIndex((line) => line.startsWith('{"type":"row"'));
  const cursor = (JSON.parse(lines[rowAt] ?? '') as { cursor: string }).cursor;
  const verifyEdited = async (edit: (all: string[]) => string[]) => {
    await writeFile(`${file}.changed`, `${edit([...lines]).join('\n')}\n`);
    return offline(`${file}.changed`);
  };
  expect(await verifyEdited((all) => all.toSpliced(rowAt, 1))).toMatchObject({
    code: 1,
    faults: [{ code: 'row_deleted', cursor }],
  });
  expect(
    await verifyEdited((all) => all.with(rowAt, (all[rowAt] ?? '').replace('"summary":"', '"summary":"x'))),
  ).toMatchObject({ code: 1, faults: [{ code: 'row_changed', cursor }] });
  expect(
    await verifyEdited((all) => all.with(rowAt, (all[rowAt] ?? '').replace(/"number":\d+/, '"number":99999'))),
  ).toMatchObject({ code: 1, faults: [{ code: 'row_changed', cursor }] });
  expect((await verifyEdited((all) => all.slice(0, rowAt + 1))).code).toBe(1);
});

test('exports one line per record as CEF and as syslog', async () => {
  const exportLines = async (format: string) =>
    (await slipway('export', '--format', format)).stdout.trimEnd().split('\n');
  const cef = await exportLines('cef');
  const syslog = await exportLines('syslog');
  expect(cef.length).toBeGreaterThan(10);
  expect(cef.every((line) => line.startsWith('CEF:0|Slipway|Slipway|'))).toBe(true);
  expect(syslog.every((line) => /^<\d+>1 \S+ slipway-\w+ slipway - \S+ \[slipway@32473 /.test(line))).toBe(true);
});

test('a followed export continues with later seals', async () => {
  const followProcess = startCli(['export', '--follow'], { server: server.url, env: { SLIPWAY_TOKEN: server.token } });
  await followProcess.waitForText('"type":"checkpoint"');
  await server.client.call('pool-put', { params: { pool: 'followed' }, body: { driver: 'external' } });
  await followProcess.waitForText('"pool": "followed"');
  followProcess.interrupt();
  await followProcess.finished;
}, 60_000);
