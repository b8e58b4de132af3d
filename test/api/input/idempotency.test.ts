/** An idempotency key does the work once: for retries in sequence, at once, and after a crash. */
import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { OperationName } from '../../../src/contract/routes.ts';
import { spawnServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { type Answer, callRoute, expectProblem, type Input } from '../support/calls.ts';
import { openTables } from '../support/tables.ts';
import { externalPool, externalServer } from '../support/tenants.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
beforeAll(async () => {
  server = await externalServer();
});
afterAll(() => server.stop());

const keyed = (name: OperationName, input: Input, key: string, bearer = server.token): Promise<Answer> =>
  callRoute(server.url, name, input, { bearer, headers: { 'idempotency-key': key } });
const allocate = (key: string, name = key, bearer = server.token) =>
  keyed('allocation-create', { body: { pool: externalPool, name } }, key, bearer);

async function allocationsNamed(name: string): Promise<number> {
  const [row] = await server.tables.query<{ count: number }>(
    'select count(*)::int as count from allocations where name = $1',
    [name],
  );
  return row?.count ?? 0;
}

/**
 * Makes the store fail or wait when an answer is about to be stored: after the work, before the
 * commit.
 */
const beforeAnswer = (does: string) => `
  create or replace function before_answer() returns trigger language plpgsql as $$ begin ${does}; return new; end $$;
  create or replace trigger before_answer before update on idempotency_keys for each row execute function before_answer()`;

describe('a key', () => {
  it('gives a retry the first answer, and does the work once', async () => {
    const first = await allocate('again');
    const second = await allocate('again');
    expect(first.status).toBe(202);
    expect([second.status, second.text]).toEqual([202, first.text]);
    expect([first, second].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect(await allocationsNamed('again')).toBe(1);
  });

  it('does the work once for twenty concurrent requests', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => allocate('crowd')));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 202));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(await allocationsNamed('crowd')).toBe(1);
  });

  it('is refused with another body or route', async () => {
    await allocate('mine');
    expectProblem(await allocate('mine', 'other'), 'idempotency_mismatch');
    expectProblem(await keyed('node-create', { body: { pool: externalPool } }, 'mine'), 'idempotency_mismatch');
    expect(await allocationsNamed('other')).toBe(0);
  });

  it('is stored with a keyed hash, which does not allow guessing the body', async () => {
    const path = `/v1/secrets/${'hashed'}`;
    const body = { value: 'quince bramble 4' };
    const answer = await keyed('secret-put', { params: { name: 'hashed' }, body }, 'guessed');
    expect(answer.status).toBe(200);
    const stored = await server.tables.query<{ request_hash: Buffer }>('select request_hash from idempotency_keys');
    const guess = createHash('sha256')
      .update(`PUT ${path}\n${JSON.stringify(body)}`)
      .digest();
    expect(stored.length).toBeGreaterThan(0);
    expect(stored.some(({ request_hash }) => request_hash.equals(guess))).toBe(false);
    expect((await keyed('secret-put', { params: { name: 'hashed' }, body }, 'guessed')).text).toBe(answer.text);
  });

  it('belongs to its token', async () => {
    const { token } = await server.tokenFor('operator');
    const [first, second] = [await allocate('shared'), await allocate('shared', 'shared', token)];
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(await allocationsNamed('shared')).toBe(2);
  });

  it('also stores an answer without a body', async () => {
    const { token_id } = await server.tokenFor('viewer');
    const gone = { params: { id: token_id } };
    for (let time = 0; time < 2; time++) {
      const answer = await keyed('token-delete', gone, 'revoke');
      expect([answer.status, answer.text]).toEqual([204, '']);
    }
    expectProblem(await keyed('token-delete', gone, 'revoke-again'), 'token_not_found');
  });

  it('returns a secret again to the holder of the key, but not to readers of the table', async () => {
    const made = { body: { name: 'robot', role: 'viewer' } };
    const first = await keyed('token-create', made, 'a-secret-key');
    const second = await keyed('token-create', made, 'a-secret-key');
    expect(second.body.token).toBe(first.body.token);
    const rows = await server.tables.query('select t::text as row from idempotency_keys t');
    expect(JSON.stringify(rows)).not.toContain(String(first.body.token));
    expect(JSON.stringify(rows)).not.toContain('a-secret-key');
  });

  it('does not store a refusal: the same request may succeed later', async () => {
    const body = { pool: 'later', name: 'later' };
    expectProblem(await keyed('allocation-create', { body }, 'later'), 'pool_not_found');
    await server.client.call('pool-put', { params: { pool: 'later' }, body: { driver: 'external' } });
    expect((await keyed('allocation-create', { body }, 'later')).status).toBe(202);
  });

  it('is forgotten after a day', async () => {
    await allocate('old');
    await server.tables.query(`update idempotency_keys set created_at = created_at - interval '25 hours'`);
    expect((await allocate('old')).headers.get('idempotency-replayed')).toBeNull();
    expect(await allocationsNamed('old')).toBe(2);
  });

  it('answers that the first request is still in progress', async () => {
    const { token_id } = await server.client.call('session-get', {});
    const key = createHash('sha256').update(`${token_id}\nheld`).digest('base64url');
    const holder = new pg.Client({ connectionString: server.database_url });
    await holder.connect();
    await holder.query('begin');
    await holder.query(
      `insert into idempotency_keys (token_id, key, request_hash, created_at) values ($1, $2, '', now())`,
      [token_id, key],
    );
    const answer = await allocate('held');
    await holder.query('rollback');
    await holder.end();
    expectProblem(answer, 'idempotency_in_progress');
    expect(answer.headers.get('retry-after')).toBe('1');
    expect((await allocate('held')).status).toBe(202);
  });
});

describe('between the work and the storing of its answer', () => {
  it('a failure undoes the work, and the retry does it once', async () => {
    await server.tables.query(beforeAnswer(`raise exception 'no'`));
    expect((await allocate('failed')).status).toBe(500);
    expect(await allocationsNamed('failed')).toBe(0);
    await server.tables.query('drop trigger before_answer on idempotency_keys');
    expect((await allocate('failed')).status).toBe(202);
    expect(await allocationsNamed('failed')).toBe(1);
  });

  it('a killed server leaves nothing, and the retry on another does it once', { timeout: 120_000 }, async () => {
    const doomed = await spawnServer();
    const heir = await spawnServer({ beside: doomed });
    const tables = await openTables(doomed.database_url);
    const ask = (url: string) =>
      callRoute(
        url,
        'allocation-create',
        { body: { pool: externalPool, name: 'crash' } },
        { bearer: doomed.token, headers: { 'idempotency-key': 'crash' } },
      );
    await doomed.client.call('pool-put', { params: { pool: externalPool }, body: { driver: 'external' } });
    try {
      await tables.query(beforeAnswer('perform pg_sleep(3)'));
      const lost = ask(doomed.url).catch(() => 'lost');
      await until('the work to be done and its answer not stored', async () => {
        const waiting = await tables.query(
          `select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
        );
        return waiting.length > 0;
      });
      await doomed.kill();
      expect(await lost).toBe('lost');
      await tables.query('drop trigger before_answer on idempotency_keys');
      const answer = await ask(heir.url);
      expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([202, null]);
      expect((await ask(heir.url)).headers.get('idempotency-replayed')).toBe('true');
      expect(await tables.query(`select 1 from allocations where name = 'crash'`)).toHaveLength(1);
    } finally {
      await tables.close();
      await heir.stop();
      await doomed.stop();
    }
  });
});
