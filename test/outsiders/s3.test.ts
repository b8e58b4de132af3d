/**
 * Backups in a bucket of moto, an imitation of S3. A proxy in front of moto holds and cuts
 * requests, so that a backup is killed during its upload, and a download ends early.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { openStorage } from '../../src/backup/storage/open-place.ts';
import { isBackupOf } from '../../src/backup/storage/storage.ts';
import { systemClock } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/telemetry/log.ts';
import { virtualClock } from '../../src/base/virtual-clock.ts';
import { scheduleBackups } from '../../src/server/scheduled-backups.ts';
import { type BackupRun, runBackupProgramWith, spawnBackupProgram } from '../support/backup-program.ts';
import { emptyDatabase, type TestDatabase, testDatabase, withClient } from '../support/database.ts';
import { accountSecrets, region } from '../support/ec2/ec2-fixture.ts';
import { freePort } from '../support/free-port.ts';
import { memoryKeyRing } from '../support/key-ring.ts';
import { readDigests } from '../support/restored-store.ts';
import { until } from '../support/until.ts';
import { type Moto, startMoto } from './support/moto.ts';
import { withOutsider } from './support/outsider.ts';
import { type StoreProxy, startStoreProxy } from './support/store-proxy.ts';

const installation_id = 'slipway-test';
const Bucket = 'backups';
const megabyte = 2 ** 20;

const isPart = ({ method, url }: IncomingMessage) => method === 'PUT' && url?.includes('partNumber=') === true;
const isCompletion = ({ method, url }: IncomingMessage) => method === 'POST' && url?.includes('uploadId=') === true;
const isDownload = ({ method, url }: IncomingMessage) => method === 'GET' && url?.includes('.slipway-backup') === true;

withOutsider('moto', (outsider) => {
  let moto: Moto;
  let proxy: StoreProxy;
  let s3: S3Client;
  let source: TestDatabase;
  let directory: string;
  let keyFile: string;
  let env: Record<string, string>;
  let tests = 0;
  /** A prefix of its own for each test. */
  let place: string;

  beforeAll(async () => {
    moto = await startMoto(outsider);
    proxy = await startStoreProxy(moto.endpoint);
    const [accessKeyId, secretAccessKey] = [accountSecrets.AWS_ACCESS_KEY_ID, accountSecrets.AWS_SECRET_ACCESS_KEY];
    const credentials = { accessKeyId, secretAccessKey };
    s3 = new S3Client({ endpoint: moto.endpoint, forcePathStyle: true, region, credentials });
    await s3.send(new CreateBucketCommand({ Bucket, CreateBucketConfiguration: { LocationConstraint: region } }));
    source = await testDatabase();
    await withClient(source.url, async (client) => {
      await client.query(`insert into counts (of, status, change) values ('nodes', 'kept', 1)`);
      await client.query(
        `insert into installation (installation_id, enrollment_secret, session_secret, created_at) values ($1, '', '', now())`,
        [installation_id],
      );
    });
    directory = await mkdtemp(join(tmpdir(), 'slipway-s3-'));
    keyFile = join(directory, 'keys.json');
    env = { ...accountSecrets, AWS_REGION: region, AWS_ENDPOINT_URL: proxy.endpoint };
  });
  afterAll(async () => {
    await source?.drop();
    s3?.destroy();
    proxy?.stop();
    moto?.stop();
    if (directory) await rm(directory, { recursive: true });
  });
  beforeEach(() => {
    place = `s3://${Bucket}/${++tests}/of slipway`;
  });
  afterEach(() => {
    proxy.release();
    vi.unstubAllEnvs();
  });

  const requireNoSecret = (output: string) => {
    for (const secret of Object.values(accountSecrets)) expect(output).not.toContain(secret);
  };
  const runWith = async (variables: Record<string, string>, ...words: string[]): Promise<BackupRun> => {
    const run = await runBackupProgramWith(variables, ...words);
    requireNoSecret(run.output);
    return run;
  };
  const backupWords = () => ['backup', '--database-url', source.url, '--key-file', keyFile];
  const backUp = async (...words: string[]): Promise<{ file: string; deleted: string[]; bytes: number }> => {
    const run = await runWith(env, ...backupWords(), '--to', place, ...words);
    expect(run.code, run.output).toBe(0);
    return run.result as { file: string; deleted: string[]; bytes: number };
  };
  const list = async () => (await runWith(env, 'backup', 'list', place)).result?.backups;
  const keyOf = (file: string) => file.slice(`s3://${Bucket}/`.length);
  const listUploads = async () => (await s3.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads ?? [];

  it('lists and verifies backups, deletes the oldest, and restores every row', async () => {
    const first = await backUp('--keep', '2');
    expect(first.file).toMatch(/^s3:\/\/backups\/1\/of slipway\/slipway-test-2.*\.slipway-backup$/);
    const second = await backUp('--keep', '2');
    expect(await list()).toEqual([first.file, second.file]);
    const third = await backUp('--keep', '2');
    expect(third.deleted).toEqual([first.file]);
    expect(await list()).toEqual([second.file, third.file]);
    expect(await listUploads()).toEqual([]);

    const keys = ['--key-file', keyFile];
    const verified = await runWith(env, 'backup', 'verify', third.file, ...keys);
    expect(verified, verified.output).toMatchObject({ code: 0 });
    const target = await emptyDatabase();
    try {
      const variables = { ...env, AWS_ENDPOINT_URL: '', SLIPWAY_TARGET_DATABASE_URL: target.url };
      const restored = await runWith(variables, 'restore', third.file, ...keys, '--s3-endpoint', moto.endpoint);
      expect(restored, restored.output).toMatchObject({ code: 0, result: { rows: verified.result?.rows } });
      expect(await readDigests(target.url)).toEqual(await readDigests(source.url));
    } finally {
      await target.drop();
    }
  }, 240_000);

  it('does not replace a backup', async () => {
    const { file } = await backUp();
    const again = await runWith(env, ...backupWords(), '--to', file);
    expect(again.output).toContain('"file_exists"');
    expect(again.code).toBe(4);
    expect(await list()).toEqual([file]);
  }, 120_000);

  it('uploads and reads many parts, and has one of them in memory', async () => {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const storage = await openStorage(place, proxy.endpoint);
    let taken = 0;
    const written = createHash('sha256');
    async function* chunks() {
      for (; taken < 100; taken++) {
        const chunk = Buffer.alloc(megabyte - 1, taken);
        written.update(chunk);
        yield chunk;
      }
    }
    const held = proxy.hold(isPart);
    const upload = storage.write('x.slipway-backup', chunks());
    await held;
    expect(await listUploads()).toHaveLength(1);
    expect(taken).toBe(32);
    proxy.release();
    expect(await upload).toBe(100 * (megabyte - 1));
    const read = createHash('sha256');
    let largest = 0;
    for await (const chunk of storage.read('x.slipway-backup')) {
      largest = Math.max(largest, chunk.length);
      read.update(chunk);
    }
    expect(read.digest('hex')).toBe(written.digest('hex'));
    expect(largest).toBe(8 * megabyte);
  }, 120_000);

  it('leaves no backup when it is killed before the end of its upload', async () => {
    const { file } = await backUp();
    const held = proxy.hold(isCompletion);
    const killed = spawnBackupProgram(env, ...backupWords(), '--to', place, '--keep', '1');
    await held;
    await killed.end('SIGKILL');
    proxy.release();
    expect(await list()).toEqual([file]);
    const [upload, ...others] = await listUploads();
    expect(others).toEqual([]);

    // moto reports this time as the start of every upload.
    const beganMs = Date.parse('2010-11-10T20:48:33Z');
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const storage = await openStorage(place, moto.endpoint);
    const isOurs = (name: string) => isBackupOf(name, installation_id);
    expect(await storage.removeAbandoned(isOurs, beganMs + 6 * 86_400_000)).toEqual([]);
    expect(await storage.removeAbandoned(() => false, systemClock.nowMs())).toEqual([]);
    expect(await listUploads()).toHaveLength(1);

    const next = await backUp('--keep', '2');
    expect(next.deleted).toEqual([`unfinished upload of s3://${Bucket}/${upload?.Key}`]);
    expect(await listUploads()).toEqual([]);
    expect(await list()).toEqual([file, next.file]);
  }, 240_000);

  it('aborts its upload when it is interrupted', async () => {
    const held = proxy.hold(isPart);
    const stopped = spawnBackupProgram(env, ...backupWords(), '--to', place);
    await held;
    expect(await listUploads()).toHaveLength(1);
    await stopped.end('SIGTERM');
    expect(await stopped.ended).toBe(130);
    expect(await listUploads()).toEqual([]);
    expect(await list()).toEqual([]);
  }, 120_000);

  it('refuses a download that is cut, short or damaged, and loads nothing', async () => {
    const { file } = await backUp();
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: keyOf(file) }));
    const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
    const damaged = Buffer.from(bytes);
    damaged.writeUInt8(damaged.readUInt8(bytes.length - 100) ^ 1, bytes.length - 100);
    const copies = { short: bytes.subarray(0, -100), damaged, empty: Buffer.alloc(0) };
    const copyOf = (name: string) => file.replace('slipway-test-', `${name}-`);
    for (const [name, copy] of Object.entries(copies))
      await s3.send(new PutObjectCommand({ Bucket, Key: keyOf(copyOf(name)), Body: copy }));
    const target = await emptyDatabase();
    try {
      const restore = (from: string) =>
        runWith({ ...env, SLIPWAY_TARGET_DATABASE_URL: target.url }, 'restore', from, '--key-file', keyFile);
      const codes = { short: 'backup_truncated', damaged: 'backup_damaged', empty: 'not_a_backup' };
      for (const [name, code] of Object.entries(codes)) {
        const refused = await restore(copyOf(name));
        expect(refused.output).toContain(`"${code}"`);
        expect(refused.code).toBe(4);
      }
      proxy.cut(isDownload);
      const cut = await restore(file);
      expect(cut.output).toContain('"storage_unavailable"');
      expect(cut.code).toBe(1);
      const tables = await withClient(target.url, (client) =>
        client.query(`select from pg_tables where schemaname in ('public', 'dbos')`),
      );
      expect(tables.rowCount).toBe(0);
    } finally {
      await target.drop();
    }
  }, 240_000);

  it.for<[string, Record<string, string>, (place: string) => string[], string]>([
    ['a missing bucket', {}, () => [...backupWords(), '--to', 's3://elsewhere/x'], 'bucket_missing'],
    ['a missing backup', {}, (to) => ['backup', 'verify', `${to}/none.slipway-backup`], 'backup_missing'],
    ['a prefix in place of a backup', {}, (to) => ['backup', 'verify', to], 'not_a_backup'],
    ['no region', { AWS_REGION: '' }, (to) => [...backupWords(), '--to', to], 'storage_region'],
    [
      'no credentials',
      {
        ...{ AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', AWS_SESSION_TOKEN: '' },
        ...{ AWS_EC2_METADATA_DISABLED: 'true', AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' },
      },
      (to) => [...backupWords(), '--to', to],
      'storage_credentials',
    ],
    [
      'credentials in the place',
      {},
      () => [...backupWords(), '--to', `s3://${accountSecrets.AWS_ACCESS_KEY_ID}@backups/x`],
      'usage',
    ],
  ])('explains %s', { timeout: 120_000 }, async ([, variables, words, code]) => {
    const keys = ['--key-file', keyFile];
    await backUp();
    const run = await runWith({ ...env, ...variables }, ...words(place), ...keys);
    expect(run.output).toContain(`"code":"${code}"`);
    const { error } = JSON.parse(run.output) as { error: Record<string, string | null> };
    expect([error.title, error.remedy]).not.toContain(null);
    expect(run.code).not.toBe(0);
  });

  it('explains a store that does not answer, and one that refuses the credentials', async () => {
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    const away = await runWith(env, ...backupWords(), '--to', place, '--s3-endpoint', nowhere);
    expect(away).toMatchObject({ code: 1 });
    expect(away.output).toContain(`The store at ${nowhere} does not answer`);
    const setUnchecked = (calls: string) =>
      fetch(`${moto.endpoint}/moto-api/reset-auth`, { method: 'POST', body: calls });
    await setUnchecked('0');
    try {
      const refused = await runWith(env, ...backupWords(), '--to', place);
      expect(refused.output).toContain('"storage_credentials"');
      expect(refused.output).toContain('Set AWS_ACCESS_KEY_ID');
      expect(refused.code).toBe(1);
    } finally {
      await setUnchecked('inf');
    }
  }, 120_000);

  it('takes scheduled backups, and finds the newest one after a restart', async () => {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const lines: string[] = [];
    const clock = virtualClock(systemClock.nowMs());
    const every_seconds = 86_400;
    const start = (to: string) => {
      const backups = scheduleBackups({
        schedule: { to, s3_endpoint: proxy.endpoint, every_seconds, keep: 2 },
        url: source.url,
        installation_id,
        key_ring: memoryKeyRing(),
        clock,
        log: createLog({ level: 'info', destination: { write: (line: string) => void lines.push(line) } }),
      });
      backups.start();
      return backups;
    };
    const first = start(place);
    await until('the first backup', () => first.state().last_at !== null);
    await until('the next wait', () => clock.pendingTimers() === 1);
    await first.stop();
    const taken = await list();
    expect(taken).toHaveLength(1);

    const again = start(place);
    await until('the newest backup to be found', () => again.state().last_at !== null);
    await until('the wait', () => clock.pendingTimers() === 1);
    expect(again.ageSeconds()).toBeLessThan(120);
    expect(await list()).toEqual(taken);
    await again.stop();

    const failing = start('s3://elsewhere/backups');
    await until('the failure', () => failing.state().is_failing);
    await failing.stop();
    expect(lines.join('')).toContain('There is no bucket elsewhere');
    requireNoSecret(lines.join(''));
  }, 120_000);
});
