/** Tests that a batch stores joins like single joins, and that a refused join fails alone. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment } from '../../base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newTokenId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { type Installation, openInstallation } from '../keys/installation.ts';
import type { Database } from '../pg/database.ts';
import { createJoinToken } from '../rows/tokens.ts';
import { type Fleet, readNodeRow, testFleet, testPool } from '../testing/fleet.ts';
import type { NodeMove } from '../transitions/node-move.ts';
import { createNewcomers, createNode, type NewNode, transition } from '../transitions/node-transition.ts';
import { register } from './register.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let installation: Installation;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  installation = await openInstallation(db, fleet.now());
});

afterAll(() => store.close());

const newJoinToken = async (expires_at: Date | null = null, max_uses: number | null = null): Promise<string> => {
  const token_id = newTokenId(fleet.clock);
  const secret = `swj_${token_id}`;
  await createJoinToken(db, { token_id, pool: 'test', expires_at, max_uses, created_at: fleet.now() }, secret);
  return secret;
};

const join = (database: Database, join_token: string, name: string): Promise<string> => {
  const { clock, environment } = fleet;
  const context = { clock, now: fleet.now(), environment, installation, correlation_id: newCorrelationId() };
  return register(database, { version: '1.0', join_token, name }, undefined, context).then(
    ({ node_id }) => node_id,
    (error: unknown) => {
      if (error instanceof ApiProblem) return error.code;
      throw error;
    },
  );
};

/** Wraps the database and counts its transactions and statements. */
const countingDatabase = () => {
  const counts = { transactions: 0, statements: 0 };
  const database: Database = {
    ...db,
    transaction: (work) => {
      counts.transactions++;
      return db.transaction((tx) =>
        work({
          ...tx,
          query: (...statement) => {
            counts.statements++;
            return tx.query(...statement);
          },
        }),
      );
    },
  };
  return { database, counts };
};

test('needs the same number of statements for a batch as for one join', async () => {
  const secret = await newJoinToken();
  const single = countingDatabase();
  await join(single.database, secret, 'alone');
  const batch = countingDatabase();
  const names = Array.from({ length: 40 }, (_, place) => `together-${place}`);
  const ids = await Promise.all(names.map((name) => join(batch.database, secret, name)));
  expect(batch.counts).toEqual(single.counts);
  expect(single.counts.transactions).toBe(1);
  const rows = await db.query<{ node_id: string; name: string }>(
    `select node.node_id, name
     from nodes node
     join instances instance using (node_instance_id)
     where name like 'together-%'
       and status = 'starting'
       and instance.registrations = 1
       and instance.node_id = node.node_id`,
  );
  expect(new Map(rows.map((row) => [row.name, row.node_id]))).toEqual(new Map(names.map((name, i) => [name, ids[i]])));
  const [token] = await db.query<{ uses: number }>('select max(uses)::int as uses from join_tokens');
  expect(token?.uses).toBe(41);
});

test('refuses invalid joins of a batch without failing the others', async () => {
  const [secret, expired] = [await newJoinToken(), await newJoinToken(fleet.now())];
  await join(db, secret, 'here-already');
  const answers = await Promise.all([
    join(db, secret, 'well-1'),
    join(db, expired, 'too-late'),
    join(db, secret, 'here-already'),
    join(db, 'swj_unknown', 'stranger'),
    join(db, secret, 'well-2'),
  ]);
  expect(answers.map((answer) => answer.replace(/^node_.*/, 'joined'))).toEqual([
    'joined',
    'join_token_expired',
    'name_taken',
    'join_token_invalid',
    'joined',
  ]);
});

test('does not split the batch when a token has too few uses left', async () => {
  const [plenty, few] = [await newJoinToken(), await newJoinToken(null, 3)];
  const { database, counts } = countingDatabase();
  const machines = Array.from({ length: 40 }, (_, place) => [plenty, few].map((token) => ({ token, place }))).flat();
  const answers = await Promise.all(
    machines.map(({ token, place }) => join(database, token, `${token === few ? 'few' : 'plenty'}-${place}`)),
  );
  const refused = answers.filter((answer) => answer === 'join_token_spent').length;
  expect(refused).toBe(37);
  // One transaction for the first join, one for the batch, and one for each refused join.
  expect(counts.transactions).toBeLessThan(refused + 5);
});

test('stores a newcomer with the same rows and evidence as a node that is created and then moved', async () => {
  const now = moment(fleet.now().getTime());
  const correlation_id = newCorrelationId();
  const newNode = (name: string): NewNode => ({
    node_id: newNodeId(fleet.clock),
    pool: 'test',
    pool_generation: 1,
    name,
    zone: null,
    node_instance_id: newNodeInstanceId(fleet.clock),
    workflow_id: null,
    correlation_id,
    requested_provision_seconds: null,
    labels: { rack: 'r1' },
  });
  const cause = { by: 'join', reason: 'it joined by itself' } as const;
  const start = ({ node_id }: Pick<NewNode, 'node_id'>): NodeMove => ({
    node_id,
    to: 'starting',
    by: 'registration',
    reason: 'registered',
    set: { registered_at: now, reported_status: 'starting', endpoint: 'http://10.0.0.7' },
    data: { version: '1.0' },
  });
  const [created, joined] = [newNode('created'), newNode('joined')];
  await db.transaction(async (tx) => {
    const node = await createNode(tx, created, testPool, cause, now, fleet.environment);
    await transition(tx, [start(node)], now, fleet.environment);
    await createNewcomers(tx, [{ fresh: joined, pool: testPool, cause, now, planMove: start }], fleet.environment);
  });
  const readStoredRows = async ({ node_id, node_instance_id, name }: NewNode) => {
    const rows = [
      await readNodeRow(db, node_id),
      await db.query('select * from boot_samples where node_id = $1', [node_id]),
      await db.query(
        `select at, layer, kind, summary, data, actor, node_id, node_instance_id, correlation_id, allocation_id
         from evidence
         where node_id = $1
         order by seq`,
        [node_id],
      ),
    ];
    const text = JSON.stringify(rows)
      .replaceAll(node_id, 'node')
      .replaceAll(node_instance_id ?? '', 'instance');
    return JSON.parse(text.replaceAll(`"${name}"`, '"name"'));
  };
  expect(await readStoredRows(joined)).toEqual(await readStoredRows(created));
  expect((await readStoredRows(joined))[2]).toHaveLength(2);
});
