/**
 * With an idempotency key, sequential and concurrent retries do the work once, even after a crash.
 */
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

const callWithKey = (name: OperationName, input: Input, key: string, bearer = server.token): Promise<Answer> =>
  callRoute(server.url, name, input, { bearer, headers: { 'idempotency-key': key } });
const allocate = (key: string, name = key, bearer = server.token) =>
  callWithKey('allocation-create', { body: { pool: externalPool, name } }, key, bearer);

async function countAllocations(name: string): Promise<number> {
  const [row] = await server.tables.query<{ count: number }>(
    'select count(*)::int as count from allocations where name = $1',
    [name],
  );
  return row?.count ?? 0;
}

/**
 * Runs a statement in the database when an answer is about to be stored: after the work, before the
 * commit.
 */
const triggerBeforeAnswer = (statement: string) => `
  create or replace function before_answer() returns trigger language plpgsql as $$ begin ${statement}; return new; end $$;
  create or replace trigger before_answer before update on idempotency_keys for each row execute function before_answer()`;

describe('a key', () => {
  it('returns the first answer to a retry, and does the work once', async () => {
    const first = await allocate('again');
    const second = await allocate('again');
    expect(first.status).toBe(202);
    expect([second.status, second.text]).toEqual([202, first.text]);
    expect([first, second].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect(await countAllocations('again')).toBe(1);
  });

  it('does the work once for twenty concurrent requests', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => allocate('crowd')));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 202));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(await countAllocations('crowd')).toBe(1);
  });

  it('is refused with another body or route', async () => {
    await allocate('mine');
    expectProblem(await allocate('mine', 'other'), 'idempotency_mismatch');
    expectProblem(await callWithKey('node-create', { body: { pool: externalPool } }, 'mine'), 'idempotency_mismatch');
    expect(await countAllocations('other')).toBe(0);
  });

  it('is stored with a keyed hash of the request, so that a reader of the table cannot guess the body', async () => {
    const path = `/v1/secrets/${'hashed'}`;
    const body = { value: 'quince bramble 4' };
    const answer = await callWithKey('secret-put', { params: { name: 'hashed' }, body }, 'guessed');
    expect(answer.status).toBe(200);
    const storedKeys = await server.tables.query<{ request_hash: Buffer }>('select request_hash from idempotency_keys');
    const guess = createHash('sha256')
      .update(`PUT ${path}\n${JSON.stringify(body)}`)
      .digest();
    expect(storedKeys.length).toBeGreaterThan(0);
    expect(storedKeys.some(({ request_hash }) => request_hash.equals(guess))).toBe(false);
    expect((await callWithKey('secret-put', { params: { name: 'hashed' }, body }, 'guessed')).text).toBe(answer.text);
  });

  it('of one token does not apply to another token', async () => {
    const { token } = await server.tokenFor('operator');
    const [first, second] = [await allocate('shared'), await allocate('shared', 'shared', token)];
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(await countAllocations('shared')).toBe(2);
  });

  it('stores an answer without a body, too', async () => {
    const { token_id } = await server.tokenFor('viewer');
    const request = { params: { id: token_id } };
    for (let time = 0; time < 2; time++) {
      const answer = await callWithKey('token-delete', request, 'revoke');
      expect([answer.status, answer.text]).toEqual([204, '']);
    }
    expectProblem(await callWithKey('token-delete', request, 'revoke-again'), 'token_not_found');
  });

  it('returns a new token again to the holder of the key, but does not show it to readers of the table', async () => {
    const request = { body: { name: 'robot', role: 'viewer' } };
    const first = await callWithKey('token-create', request, 'a-secret-key');
    const second = await callWithKey('token-create', request, 'a-secret-key');
    expect(second.body.token).toBe(first.body.token);
    const rows = await server.tables.query('select t::text as row from idempotency_keys t');
    expect(JSON.stringify(rows)).not.toContain(String(first.body.token));
    expect(JSON.stringify(rows)).not.toContain('a-secret-key');
  });

  it('does not store a refusal: the same request may succeed later', async () => {
    const body = { pool: 'later', name: 'later' };
    expectProblem(await callWithKey('allocation-create', { body }, 'later'), 'pool_not_found');
    await server.client.call('pool-put', { params: { pool: 'later' }, body: { driver: 'external' } });
    expect((await callWithKey('allocation-create', { body }, 'later')).status).toBe(202);
  });

  it('is forgotten after a day', async () => {
    await allocate('old');
    await server.tables.query(`update idempotency_keys set created_at = created_at - interval '25 hours'`);
    expect((await allocate('old')).headers.get('idempotency-replayed')).toBeNull();
    expect(await countAllocations('old')).toBe(2);
  });

  it('is refused while the first request is in progress', async () => {
    const { token_id } = await server.client.call('session-get', {});
    const key = createHash('sha256').update(`${token_id}\nheld`).digest('base64url');
    const firstRequest = new pg.Client({ connectionString: server.database_url });
    await firstRequest.connect();
    await firstRequest.query('begin');
    await firstRequest.query(
      `insert into idempotency_keys (token_id, key, request_hash, created_at) values ($1, $2, '', now())`,
      [token_id, key],
    );
    const answer = await allocate('held');
    await firstRequest.query('rollback');
    await firstRequest.end();
    expectProblem(answer, 'idempotency_in_progress');
    expect(answer.headers.get('retry-after')).toBe('1');
    expect((await allocate('held')).status).toBe(202);
  });
});

describe('after the work and before its answer is stored', () => {
  it('a failure undoes the work, and the retry does the work once', async () => {
    await server.tables.query(triggerBeforeAnswer(`raise exception 'no'`));
    expect((await allocate('failed')).status).toBe(500);
    expect(await countAllocations('failed')).toBe(0);
    await server.tables.query('drop trigger before_answer on idempotency_keys');
    expect((await allocate('failed')).status).toBe(202);
    expect(await countAllocations('failed')).toBe(1);
  });

  it('a crash of the server undoes the work, and the retry on another server does the work once', {
    timeout: 120_000,
  }, async () => {
    const crashing = await spawnServer();
    const surviving = await spawnServer({ beside: crashing });
    const tables = await openTables(crashing.database_url);
    const allocateAt = (url: string) =>
      callRoute(
        url,
        'allocation-create',
        { body: { pool: externalPool, name: 'crash' } },
        { bearer: crashing.token, headers: { 'idempotency-key': 'crash' } },
      );
    await crashing.client.call('pool-put', { params: { pool: externalPool }, body: { driver: 'external' } });
    try {
      await tables.query(triggerBeforeAnswer('perform pg_sleep(3)'));
      const reply = allocateAt(crashing.url).catch(() => 'lost');
      await until('the work to be done and its answer not stored', async () => {
        const waiting = await tables.query(
          `select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
        );
        return waiting.length > 0;
      });
      await crashing.kill();
      expect(await reply).toBe('lost');
      await tables.query('drop trigger before_answer on idempotency_keys');
      const answer = await allocateAt(surviving.url);
      expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([202, null]);
      expect((await allocateAt(surviving.url)).headers.get('idempotency-replayed')).toBe('true');
      expect(await tables.query(`select 1 from allocations where name = 'crash'`)).toHaveLength(1);
    } finally {
      await tables.close();
      await surviving.stop();
      await crashing.stop();
    }
  });
});
