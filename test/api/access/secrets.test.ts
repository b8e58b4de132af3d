/** Secrets and privileged pool fields over the API, with machines that run real processes. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { rotateKeyRing } from '../../../src/base/credentials/key-ring.ts';
import { runCli } from '../../../src/cli/testing/run-cli.ts';
import { type Client, RequestRefused } from '../../../src/contract/client.ts';
import type { Pool, PoolDocument } from '../../../src/contract/pool.ts';
import { maskedValue } from '../../../src/contract/pool-fields/masked.ts';
import { inProcessServer, type SpawnedServer, spawnServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

/** Matches no redaction pattern: the server must redact it because it is a stored secret. */
const value = ['plum', 'quartz', 'meadow', '93'].join('~');

const createToken = async ({ client }: TestServer, role: 'viewer' | 'operator') =>
  (await client.call('token-create', { body: { name: role, role } })).token ?? '';

const readOutcomeCode = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'done',
    (error: unknown) => {
      if (error instanceof RequestRefused) return error.problem.code;
      throw error;
    },
  );

/** The document of a pool, without the fields that only answers have. */
const asDocument = ({ generation: _, created_at: __, updated_at: ___, nodes: ____, ...document }: Pool): PoolDocument =>
  document;

describe('secrets and pool fields', () => {
  let server: TestServer;
  let viewer: Client;
  let operator: Client;
  beforeAll(async () => {
    server = await inProcessServer();
    viewer = server.as(await createToken(server, 'viewer'));
    operator = server.as(await createToken(server, 'operator'));
  });
  afterAll(() => server.stop());

  const put = (client: Client, pool: string, body: PoolDocument) => client.call('pool-put', { params: { pool }, body });

  it('passes the secret to the process, and shows it in no answer or log', async () => {
    const { client } = server;
    const storedSecret = await client.call('secret-put', { params: { name: 'greeting' }, body: { value } });
    expect(storedSecret).toMatchObject({ name: 'greeting', version: 1, readable: true, used_by: [] });
    expect(JSON.stringify(storedSecret)).not.toContain(value);
    const outputFile = join(server.data_dir, 'seen');
    const spec = {
      env: { GREETING: { secret: 'greeting' }, PLAIN: 'in the open' },
      setup: `printf '%s %s' "$GREETING" "$PLAIN" > ${outputFile}; echo "set up with $GREETING"; echo "and failed with $GREETING" >&2`,
      command: ['sh', '-c', 'echo "running with $GREETING"; sleep 600'],
      clean: `printf '%s' "$GREETING" > ${outputFile}.clean`,
    };
    await put(client, 'greeted', { driver: 'local', spec });
    const { allocation, node } = await allocate(client, 'greeted');
    expect(await readFile(outputFile, 'utf8')).toBe(`${value} in the open`);
    await until('the last log line', async () => {
      const { items } = await client.call('node-logs', { params: { id: node }, query: { limit: 200 } });
      return items.some(({ line }) => line.startsWith('running with'));
    });
    await client.call('allocation-release', { params: { id: allocation } });
    await until('the allocation to be released', async () => {
      const { status } = await client.call('allocation-get', { params: { id: allocation } });
      return status === 'released';
    });
    expect(await readFile(`${outputFile}.clean`, 'utf8')).toBe(value);

    const logs = await client.call('node-logs', { params: { id: node }, query: { limit: 500 } });
    expect(logs.items.map(({ line }) => line).join('\n')).toContain('set up with [struck out]');
    const facts = await client.call('node-timeline', { params: { id: node }, query: { limit: 200 } });
    const pool = await client.call('pool-get', { params: { pool: 'greeted' } });
    const secrets = await client.call('secret-list', {});
    for (const answer of [logs, facts, pool, secrets]) expect(JSON.stringify(answer)).not.toContain(value);
    expect(secrets.items[0]).toMatchObject({
      name: 'greeting',
      used_by: ['greeted'],
      last_used_at: expect.any(String),
    });
  });

  it('deletes a secret in use only if forced; later launches fail and name the secret', async () => {
    const { client } = server;
    await client.call('secret-put', { params: { name: 'needed' }, body: { value: `${value}-needed` } });
    await put(client, 'needy', { driver: 'local', spec: { env: { X: { secret: 'needed' } } } });
    const params = { name: 'needed' };
    expect(await readOutcomeCode(client.call('secret-delete', { params, query: {} }))).toBe('secret_in_use');
    expect(await readOutcomeCode(client.call('secret-delete', { params, query: { force: true } }))).toBe('done');
    expect(await readOutcomeCode(client.call('secret-delete', { params, query: {} }))).toBe('secret_not_found');
    const { allocation } = await client.call('allocation-create', { body: { pool: 'needy', name: 'waits' } });
    const failed = await until('the allocation to fail', async () => {
      const current = await client.call('allocation-get', { params: { id: allocation.allocation_id } });
      return current.status === 'failed' ? current : undefined;
    });
    expect(failed).toMatchObject({ owner_layer: 'operator' });
    expect(failed.reason).toContain('needed');
    const withUnknownSecret = put(client, 'unknowing', { driver: 'local', spec: { env: { X: { secret: 'needed' } } } });
    expect(await readOutcomeCode(withUnknownSecret)).toBe('invalid_spec');
  });

  it('refuses a value that is easy to guess or a reserved word', async () => {
    const { client } = server;
    for (const unsuitable of ['internal', 'allocation.released', 'short-one-123', '-'.repeat(40)])
      expect(
        await readOutcomeCode(client.call('secret-put', { params: { name: 'x' }, body: { value: unsuitable } })),
      ).toBe('secret_value_unsuitable');
    const { items } = await client.call('secret-list', {});
    expect(items.map(({ name }) => name)).not.toContain('x');
  });

  it('lets only admins list and store secrets', async () => {
    for (const client of [viewer, operator]) {
      expect(await readOutcomeCode(client.call('secret-list', {}))).toBe('role_insufficient');
      expect(await readOutcomeCode(client.call('secret-put', { params: { name: 'x' }, body: { value } }))).toBe(
        'role_insufficient',
      );
    }
  });

  it('masks literal values for non-admins in every answer with a pool', async () => {
    const literal = 'walnut~harbor~17';
    const spec = { env: { A: literal }, setup: `: ${literal}`, command: ['true', literal], clean: `: ${literal}` };
    await put(server.client, 'masked', { driver: 'local', spec, requires: [{ name: 'r', check: `: ${literal}` }] });
    const params = { pool: 'masked' };
    const answers = [
      await viewer.call('pool-get', { params }),
      await viewer.call('pool-list', {}),
      await operator.call('pool-get', { params }),
      await operator.call('pool-budget', { params, body: { budget_seconds: 333, reason: 'test' } }),
      await put(operator, 'masked', {
        ...asDocument(await operator.call('pool-get', { params })),
        max_nodes: 7,
      }),
    ];
    for (const answer of answers) expect(JSON.stringify(answer)).not.toContain(literal);
    expect(answers[0]).toMatchObject({ spec: { env: { A: maskedValue } } });
    expect(await server.client.call('pool-get', { params })).toMatchObject({ spec, max_nodes: 7 });
  });

  it('lets an operator change only unprivileged fields', async () => {
    const params = { pool: 'guarded' };
    const requires = [{ name: 'disk', check: 'df /' }];
    await put(server.client, 'guarded', { driver: 'external', requires, probe: { allow_private: true } });
    const read = asDocument(await operator.call('pool-get', { params }));
    await put(operator, 'guarded', { ...read, budgets: { provision_seconds: 77 } });
    expect(await server.client.call('pool-get', { params })).toMatchObject({
      requires,
      probe: { allow_private: true },
      budgets: { provision_seconds: 77 },
    });
    const changedDocument = { ...read, requires: [{ name: 'disk', check: 'id > owned' }] };
    expect(await readOutcomeCode(put(operator, 'guarded', changedDocument))).toBe('pool_field_privileged');
    expect(await readOutcomeCode(put(operator, 'fresh', { driver: 'external', requires }))).toBe(
      'pool_field_privileged',
    );
    expect(await readOutcomeCode(put(operator, 'fresh', { driver: 'external' }))).toBe('done');
    expect(
      await readOutcomeCode(
        put(operator, 'fresh', { driver: 'external', requires: [{ name: 'x', check: maskedValue }] }),
      ),
    ).toBe('masked_value_unknown');
  });

  it('refuses privileged fields, and names the fields and the setting that allows them', async () => {
    const body = {
      driver: 'ec2',
      spec: {
        region: 'eu-central-1',
        image_id: 'ami-01234567',
        instance_type: 't3.small',
        iam_instance_profile: 'root',
      },
    };
    const problem = await put(operator, 'cloud', body).then(
      () => null,
      (error: RequestRefused) => error.problem,
    );
    expect(problem).toMatchObject({ code: 'pool_field_privileged', status: 403 });
    expect(problem?.errors?.map(({ path }) => path)).toEqual([
      '/body/spec/iam_instance_profile',
      '/body/spec/image_id',
    ]);
    expect(problem?.detail).toContain('operators_may.iam_instance_profiles');
  });

  it('sets a secret from a file in the CLI, and lists, rotates and deletes secrets without showing the value', async () => {
    const file = join(server.data_dir, 'value.txt');
    await writeFile(file, `${value}-by-cli\n`);
    const cli = (...args: string[]) => runCli(args, { server: server.url, env: { SLIPWAY_TOKEN: server.token } });
    const set = await cli('secrets', 'set', 'by-cli', '--file', file);
    expect(set).toMatchObject({ code: 0 });
    const list = await cli('secrets', 'list');
    expect(list.stdout).toContain('by-cli');
    expect(set.stdout + list.stdout).not.toContain(value);
    expect((await cli('secrets', 'rotate')).code).toBe(0);
    expect((await cli('secrets', 'delete', 'by-cli')).code).toBe(0);
    await rm(file);
  });
});

describe('operators_may in the settings file', () => {
  let server: SpawnedServer;
  beforeAll(async () => {
    const config = join(process.env.TMPDIR ?? '/tmp', `slipway-operators-may-${process.pid}.yaml`);
    await writeFile(config, 'operators_may:\n  requires: ["df /"]\n');
    server = await spawnServer({ args: ['--config', config] });
    await rm(config);
  });
  afterAll(() => server.stop());

  it('allows operators the listed values', async () => {
    const operator = server.as(await createToken(server, 'operator'));
    const put = (check: string) =>
      operator.call('pool-put', {
        params: { pool: 'listed' },
        body: { driver: 'external', requires: [{ name: 'disk', check }] },
      });
    expect(await readOutcomeCode(put('df /'))).toBe('done');
    expect(await readOutcomeCode(put('df /; id'))).toBe('pool_field_privileged');
  });
});

describe('a key file', () => {
  it('can be rotated under a running server; a replica without the key fails launches and names the file', async () => {
    const first = await spawnServer();
    try {
      const { client } = first;
      await client.call('secret-put', { params: { name: 'kept' }, body: { value } });
      const keys = join(first.data_dir, 'keys.json');
      const kid = rotateKeyRing(keys, systemClock);
      expect(await client.call('secret-rotate', {})).toEqual({ kid, rotated: 1, unreadable: [] });
      await client.call('pool-put', {
        params: { pool: 'kept' },
        body: { driver: 'local', spec: { env: { X: { secret: 'kept' } } } },
      });
      await allocate(client, 'kept');

      // A replica with another key file must report that it cannot read the secret.
      const second = await spawnServer({ beside: first });
      try {
        expect(second.output()).toContain('stored secrets cannot be decrypted');
        expect(second.output()).toContain(join(second.data_dir, 'keys.json'));
        const { items } = await second.client.call('secret-list', {});
        expect(items).toMatchObject([{ name: 'kept', kid, readable: false }]);
        await first.kill();
        const { allocation } = await second.client.call('allocation-create', { body: { pool: 'kept', name: 'later' } });
        const failed = await until('the allocation to fail', async () => {
          const current = await second.client.call('allocation-get', { params: { id: allocation.allocation_id } });
          return current.status === 'failed' ? current : undefined;
        });
        expect(failed.reason).toContain(join(second.data_dir, 'keys.json'));
      } finally {
        await second.stop();
      }
    } finally {
      await first.stop();
    }
  });
});

/** Creates an allocation and waits until it is active. */
async function allocate(client: Client, pool: string): Promise<{ allocation: string; node: string }> {
  const { allocation } = await client.call('allocation-create', { body: { pool, name: 'one' } });
  const id = allocation.allocation_id;
  const node = await until('the allocation to be active', async () => {
    const current = await client.call('allocation-get', { params: { id } });
    if (current.status === 'failed') throw new Error(`the allocation failed: ${current.reason}`);
    return current.status === 'active' ? (current.node_id ?? undefined) : undefined;
  });
  return { allocation: id, node };
}
