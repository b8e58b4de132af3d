/** `slipway bundle` writes an archive with everything about a machine, and without secrets. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import { until } from '../../support/until.ts';
import { type TenantFixture, tenantFixture } from '../support/tenants.ts';

let fixture: TenantFixture;
const dir = mkdtempSync(join(tmpdir(), 'slipway-bundle-'));
beforeAll(async () => {
  fixture = await tenantFixture();
});
afterAll(async () => {
  await fixture.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Unpacks a tar archive and returns the text of each file by its name. */
function unpack(path: string): Map<string, string> {
  const bytes = gunzipSync(readFileSync(path));
  const files = new Map<string, string>();
  for (let at = 0; bytes[at] !== 0; ) {
    const text = (from: number, to: number) => bytes.toString('utf8', at + from, at + to).replace(/\0.*$/s, '');
    const size = Number.parseInt(text(124, 136), 8);
    files.set(text(0, 100).replace(/^[^/]*\//, ''), bytes.toString('utf8', at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

const runBundle = (id: string, token: string, output: string) =>
  runCli(['bundle', id, '--output', output, '--json'], { server: fixture.url, env: { SLIPWAY_TOKEN: token } });

const plantedSecrets = {
  environment: 'no-name-gives-it-away-7391',
  password: 'hunter2-in-a-line',
  header: 'abcdef0123456789abcdef',
  token: `swt_${'x'.repeat(40)}`,
  key: 'AKIAABCDEFGHIJKLMNOP',
  private_key: 'plantedKeyLine'.padEnd(64, 'x'),
};

it('contains everything about a machine, and no secret', async () => {
  const { machine, allocation } = fixture.acme;
  const { client } = fixture;
  const body = {
    driver: 'local',
    spec: { env: { GREETING: plantedSecrets.environment }, setup: `export PASSWORD=${plantedSecrets.password}` },
  };
  await client.call('pool-put', { params: { pool: 'rig' }, body });
  await machine.log(2, `psql: password=${plantedSecrets.password}`);
  await machine.log(3, `curl -H "Authorization: Bearer ${plantedSecrets.header}"`);
  await machine.log(
    4,
    `a token of ours: ${plantedSecrets.token}, a key of theirs: ${plantedSecrets.key}, and ${fixture.token}`,
  );
  await machine.log(5, '-----BEGIN PRIVATE KEY-----');
  await machine.log(6, plantedSecrets.private_key);
  const facts = [
    {
      at: '2030-01-01T00:00:00Z',
      layer: 'node',
      kind: 'said',
      summary: `it said ${plantedSecrets.token}`,
      data: { password: plantedSecrets.password },
    },
  ];
  await machine.call('agent-evidence', { body: { facts } });
  await until('the fact on the timeline', async () => {
    const { items } = await client.call('node-timeline', { params: { id: machine.node_id }, query: { kind: 'said' } });
    return items.length > 0;
  });

  const path = join(dir, 'all.tar.gz');
  const result = await runBundle(machine.node_id, fixture.token, path);
  expect(result).toMatchObject({ code: 0, stderr: '' });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const files = unpack(path);
  const listedFiles: { name: string; missing: string | null }[] = JSON.parse(result.stdout).files;
  expect(listedFiles.filter(({ missing }) => missing !== null)).toEqual([]);
  expect([...files.keys()]).toEqual(['bundle.json', ...listedFiles.map(({ name }) => name)]);
  expect(files.get('logs.ndjson')).toContain('acme keeps this to itself');
  expect(files.get('timeline.ndjson')).toContain('"kind":"node.ready"');
  expect(JSON.parse(files.get('explain.json') ?? '')).toMatchObject({ status: 'ready' });
  expect(JSON.parse(files.get('allocation.json') ?? '')).toMatchObject({ allocation_id: allocation.allocation_id });
  expect(JSON.parse(files.get('server/settings.json') ?? '')).toMatchObject({
    decides_by: { brake: { fraction: 0.2, window_seconds: 60 }, budgets: { provision_seconds: 720 } },
  });
  const secrets = {
    ...plantedSecrets,
    own: fixture.token,
    credential: machine.credential,
    database: new URL(fixture.database_url).password,
  };
  for (const [what, secret] of Object.entries(secrets).filter(([, text]) => text !== ''))
    for (const [name, text] of files) expect(text.includes(secret), `${what} in ${name}`).toBe(false);

  const secondResult = await runBundle(machine.node_id, fixture.token, path);
  expect(secondResult).toMatchObject({ code: 1, stderr: expect.stringContaining('Cannot write the bundle') });
});

it('masks all values of an environment, whatever their names are', async () => {
  const { allocation } = await fixture.client.call('allocation-create', { body: { pool: 'rig' } });
  const path = join(dir, 'rig.tar.gz');
  expect(await runBundle(allocation.allocation_id, fixture.token, path)).toMatchObject({ code: 0 });
  const files = unpack(path);
  expect(files.get('pool.json')).toContain('GREETING');
  for (const secret of [plantedSecrets.environment, plantedSecrets.password])
    for (const [name, text] of files) expect(text.includes(secret), name).toBe(false);
});

it('contains only what its tenant may see, and names the missing files', async () => {
  const path = join(dir, 'tenant.tar.gz');
  const { code, stdout } = await runBundle(fixture.acme.allocation.allocation_id, fixture.acme.token, path);
  expect(code).toBe(0);
  const missingFiles = JSON.parse(stdout).files.filter((file: { missing: string | null }) => file.missing !== null);
  expect(missingFiles.map(({ name }: { name: string }) => name)).toEqual(
    expect.arrayContaining(['pool.json', 'server/settings.json']),
  );
  for (const { missing: reason } of missingFiles) expect(reason).toMatch(/^(scope_insufficient|role_insufficient): /);
  for (const [name, text] of unpack(path)) expect(text.includes('globex'), name).toBe(false);
});

it('is not written for an unknown machine', async () => {
  const path = join(dir, 'nothing.tar.gz');
  expect((await runBundle('node_0000000000', fixture.token, path)).code).toBe(4);
  expect((await runBundle('never-heard-of', fixture.token, path)).code).toBe(1);
  expect(existsSync(path)).toBe(false);
});
