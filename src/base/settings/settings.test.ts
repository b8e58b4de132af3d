/** Tests how the server reads its settings from flags and the environment. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { defaultDrainSeconds, SettingsError } from './flag-values.ts';
import { readSettings, serverFlags } from './settings.ts';

const token = 'four-and-twenty-characters';

test('reads the admin token without the line break at the end of a secret from a file', () => {
  expect(readSettings([], { SLIPWAY_ADMIN_TOKEN: `${token}\n` }).admin_token).toBe(token);
  expect(readSettings([], { SLIPWAY_ADMIN_TOKEN: `${token}\r\n` }).admin_token).toBe(token);
  expect(readSettings([], {}).admin_token).toBeNull();
  expect(() => readSettings([], { SLIPWAY_ADMIN_TOKEN: `short${'\n'.repeat(24)}` })).toThrow(SettingsError);
});

test('reads an empty flag or variable as unset', () => {
  const names = Object.keys(serverFlags).map((flag) => `SLIPWAY_${flag.replaceAll('-', '_').toUpperCase()}`);
  const empty = Object.fromEntries([...names, 'SLIPWAY_ADMIN_TOKEN'].map((name) => [name, '']));
  expect(readSettings([], empty)).toEqual(readSettings([], {}));
  expect(readSettings(['--port', '', '--data-dir='], {})).toEqual(readSettings([], {}));
});

test('reads yes and no from a variable in any case', () => {
  for (const text of ['1', 'true', 'TRUE', 'yes', 'on'])
    expect(readSettings([], { SLIPWAY_ALLOW_LOCAL_DRIVER: text }).allow_local_driver).toBe(true);
  expect(readSettings([], { SLIPWAY_ALLOW_LOCAL_DRIVER: 'off' }).allow_local_driver).toBe(false);
});

test('refuses too few database connections', () => {
  expect(readSettings([], {}).database_connections).toBe(29);
  expect(() => readSettings(['--database-connections', '11'], {})).toThrow('a whole number from 12, not 11');
});

test('accepts a database URL with several servers and refuses an unknown target, without the password', () => {
  const url = 'postgres://me:hidden@a:5432,b:5433/db?target_session_attrs=read-write';
  expect(readSettings(['--database-url', url], {}).database_url).toBe(url);
  const refused = () => readSettings([], { SLIPWAY_DATABASE_URL: url.replace('read-write', 'standby') });
  expect(refused).toThrow('--database-url: target_session_attrs must be any, read-write, primary, not standby');
  expect(refused).not.toThrow(/hidden/);
});

test('schedules backups in a bucket, and does not repeat credentials from a URL that it refuses', () => {
  const read = (to: string, environment: Record<string, string> = {}, ...flags: string[]) =>
    readSettings(['--backup-to', to, ...flags], environment).backups;
  expect(read('s3://backups')).toMatchObject({ to: 's3://backups', s3_endpoint: null });
  const environment = { AWS_ENDPOINT_URL: 'http://all:9000', AWS_ENDPOINT_URL_S3: 'http://s3:9000' };
  expect(read('s3://backups/a b/c', environment)).toMatchObject({ s3_endpoint: 'http://s3:9000' });
  const flags = ['--s3-endpoint', 'https://minio:9000'];
  expect(read('S3://backups/a', environment, ...flags)).toMatchObject({ s3_endpoint: 'https://minio:9000' });
  for (const [to, endpoint] of [
    ['s3://key:hunter2@backups/a', ''],
    ['s3:/hunter2', ''],
    ['s3://', ''],
    ['s3://backups', 'http://key:hunter2@minio'],
    ['s3://backups', 'hunter2'],
  ] as const) {
    expect(() => read(to, { AWS_ENDPOINT_URL: endpoint })).toThrow(SettingsError);
    expect(() => read(to, { AWS_ENDPOINT_URL: endpoint })).not.toThrow(/hunter2/);
  }
});

test('schedules backups only with --backup-to, and refuses times and numbers that are too small', () => {
  expect(readSettings(['--backup-keep', '3'], {}).backups).toBeNull();
  const flags = ['--backup-to', '/backups', '--backup-every-seconds', '3600'];
  expect(readSettings(flags, { AWS_ENDPOINT_URL: 'not a URL' }).backups).toEqual({
    to: '/backups',
    s3_endpoint: null,
    every_seconds: 3600,
    keep: 14,
  });
  for (const bad of [
    '--backup-every-seconds=59',
    '--backup-every-seconds=daily',
    '--backup-keep=0',
    '--backup-keep=1.5',
  ])
    expect(() => readSettings([...flags, bad], {})).toThrow(SettingsError);
});

test('drains by default only with a database that other replicas can share', () => {
  const drainOf = (...flags: string[]) => readSettings(flags, {}).drain_seconds;
  expect(drainOf()).toBe(0);
  expect(drainOf('--database-url', 'postgres://db/slipway')).toBe(defaultDrainSeconds);
  expect(drainOf('--drain-seconds', '3.5')).toBe(3.5);
  for (const bad of ['-1', 'soon', '3601']) expect(() => drainOf(`--drain-seconds=${bad}`)).toThrow(SettingsError);
});

/** The embedded database may take 30 s for a fast shutdown and 10 s for an immediate one. */
const longestStopSeconds = 40;

test('the systemd unit waits longer than a drain and a stop take', () => {
  const unit = readFileSync(new URL('../../../packaging/systemd/slipway.service', import.meta.url), 'utf8');
  const timeoutSeconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
  expect(timeoutSeconds).toBeGreaterThan(defaultDrainSeconds + longestStopSeconds);
});
