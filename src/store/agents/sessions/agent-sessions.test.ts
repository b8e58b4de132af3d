/** Tests the session cache when facts arrive late, twice, or during a read. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { systemClock } from '../../../base/clock.ts';
import { hashSecret } from '../../../base/credentials/random-secret.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import type { Database, Row } from '../../pg/database.ts';
import type { NodeRow } from '../../rows/nodes.ts';
import { type Fleet, testFleet } from '../../testing/fleet.ts';
import { fenceInstance } from '../instances.ts';
import { type AgentSession, type AgentSessions, createAgentSessions } from './agent-sessions.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

const credentialOf = (node: NodeRow) => `credential of ${node.node_id}`;

async function readyNode(): Promise<NodeRow> {
  const node = await fleet.node('ready');
  await db.query('update instances set credential_hash = $2 where node_instance_id = $1', [
    node.node_instance_id,
    hashSecret(credentialOf(node)),
  ]);
  return node;
}

/** Reads the table directly: the evidence reader holds back rows behind open transactions. */
const factsOf = ({ node_id }: NodeRow): Promise<Evidence[]> =>
  db.query<Evidence & Row>('select * from evidence where node_id = $1 order by seq', [node_id]);

async function mustFind(sessions: AgentSessions, node: NodeRow): Promise<AgentSession> {
  const session = await sessions.find(credentialOf(node), fleet.now());
  return session ?? expect.fail('no instance has this credential');
}

const moveOffline = (node: NodeRow) =>
  fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'silent' });

/** Calls back after each query, and can delay its result. */
const observedStore = (onAnswer: (text: string) => unknown): Database => ({
  ...db,
  async query(text, values) {
    const rows = await db.query<never>(text, values);
    await onAnswer(text);
    return rows;
  },
});

it('keeps the current status when older facts arrive', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  await mustFind(sessions, node);
  const facts = await factsOf(node);
  expect(facts.map(({ kind }) => kind)).toEqual(['node.provisioning', 'node.starting', 'node.ready']);
  for (const fact of facts) {
    sessions.observe(fact);
    expect((await mustFind(sessions, node)).node_status, `after ${fact.kind}`).toBe('ready');
  }
});

it('queries the store again only if a fact contradicts the session', async () => {
  const node = await readyNode();
  let queries = 0;
  const sessions = createAgentSessions(observedStore(() => queries++));
  await mustFind(sessions, node);
  queries = 0;
  for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
  await mustFind(sessions, node);
  expect(queries, 'after a known fact').toBe(0);

  await moveOffline(node);
  await mustFind(sessions, node);
  expect(queries, 'before the fact arrives').toBe(0);
  for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
  expect(await mustFind(sessions, node)).toMatchObject({ node_status: 'offline', verdict_rule: 'liveness' });
  await mustFind(sessions, node);
  expect(queries, 'after a new fact, once').toBe(1);
});

it('renews a session that a caller holds', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  const held = await mustFind(sessions, node);
  await moveOffline(node);
  for (const fact of await factsOf(node)) sessions.observe(fact);
  await sessions.renew(held);
  expect(held.node_status).toBe('offline');
  expect(await mustFind(sessions, node), 'the same session for every caller').toBe(held);

  sessions.forget(node.node_instance_id as NodeInstanceId);
  await fleet.move({ node_id: node.node_id, to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' });
  await sessions.renew(held);
  expect(held.node_status, 'also after the cache dropped it').toBe('ready');
});

it('discards a row that was read before a fact arrived, also with concurrent reads', async () => {
  const node = await readyNode();
  const pausedReads = [1, 2].map(() => ({ read: Promise.withResolvers<void>(), go: Promise.withResolvers<void>() }));
  const [first, second] = pausedReads;
  const unansweredReads = [...pausedReads];
  const sessions = createAgentSessions(
    observedStore((text) => {
      const pausedRead = text.includes('tasks_waiting') ? unansweredReads.shift() : undefined;
      pausedRead?.read.resolve();
      return pausedRead?.go.promise;
    }),
  );
  const early = mustFind(sessions, node);
  await first?.read.promise;
  await moveOffline(node);
  for (const fact of await factsOf(node)) sessions.observe(fact);
  const late = mustFind(sessions, node);
  await second?.read.promise;
  first?.go.resolve();
  expect((await early).node_status).toBe('offline');
  second?.go.resolve();
  expect((await late).node_status).toBe('offline');
});

it('keeps a fence that arrives during the lookup of the credential', async () => {
  const node = await readyNode();
  const id = node.node_instance_id as NodeInstanceId;
  let isFenced = false;
  const sessions = createAgentSessions(
    observedStore(async (text) => {
      if (isFenced || !text.includes('instance.credential_hash in')) return;
      isFenced = true;
      await db.query('update instances set fenced_at = now(), fence_reason = $2 where node_instance_id = $1', [
        id,
        'replaced',
      ]);
      const [fact] = await factsOf(node);
      if (fact) sessions.observe({ ...fact, kind: 'instance.fenced' });
    }),
  );
  expect((await mustFind(sessions, node)).fence).toMatchObject({ kind: 'fenced', reason: 'replaced' });
});

it('finds a new credential that another call uses between the two queries', async () => {
  const node = await readyNode();
  const next = hashSecret(`next ${credentialOf(node)}`);
  const id = node.node_instance_id as NodeInstanceId;
  await db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [id, next]);
  const sessions = createAgentSessions(
    observedStore(async (text) => {
      if (text.includes('instance.credential_hash in'))
        await db.query(
          'update instances set credential_hash = $2, next_credential_hash = null where node_instance_id = $1',
          [id, next],
        );
    }),
  );
  expect(await sessions.find(`next ${credentialOf(node)}`, fleet.now())).toMatchObject({ node_instance_id: id });
});

it('returns the reason of a fence before its fact arrives, and drops the session', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  await mustFind(sessions, node);
  const id = node.node_instance_id as NodeInstanceId;
  await db.transaction((tx) => fenceInstance(tx, id, { reason: 'it joined again', revoke: false }, fleet.now()));
  expect(sessions.getCached(credentialOf(node)), 'before its fact arrives').toBeDefined();
  expect(await sessions.forgetFenced(id)).toBe('it joined again');
  expect(sessions.getCached(credentialOf(node))).toBeUndefined();
});

it('finds the next holder of a name after its fenced holder was looked up', async () => {
  const former = await readyNode();
  const protocol = 'agentfield';
  const { pool, name } = former;
  await db.query('update instances set door = $2, fenced_at = now() where node_instance_id = $1', [
    former.node_instance_id,
    protocol,
  ]);
  const sessions = createAgentSessions(db);
  expect(await sessions.findByName({ protocol, pool, name })).toMatchObject({ fence: { kind: 'fenced' } });
  await db.query(`update nodes set status = 'retired' where node_id = $1`, [former.node_id]);
  expect(await sessions.findByName({ protocol, pool, name })).toBeUndefined();
  const next = await readyNode();
  await db.query('update nodes set name = $2 where node_id = $1', [next.node_id, name]);
  await db.query('update instances set door = $2 where node_instance_id = $1', [next.node_instance_id, protocol]);
  const session = await sessions.findByName({ protocol, pool, name });
  expect(session).toMatchObject({ node_id: next.node_id, fence: { kind: 'none' } });
  expect(await sessions.findByName({ protocol, pool, name })).toBe(session);
});

it('looks up many agents in one query', async () => {
  const nodes = await Promise.all([1, 2, 3, 4, 5].map(readyNode));
  const texts: string[] = [];
  const sessions = createAgentSessions(observedStore((text) => texts.push(text)));
  const findAll = () => Promise.all(nodes.map((node) => mustFind(sessions, node)));
  const found = await findAll();
  expect(found.map(({ node_id }) => node_id)).toEqual(nodes.map((node) => node.node_id));
  expect(texts, 'one lookup and one update of the first use').toHaveLength(2);
  for (const [index, node] of nodes.entries()) expect(sessions.getCached(credentialOf(node))).toBe(found[index]);

  texts.length = 0;
  for (const node of nodes) {
    await moveOffline(node);
    for (const fact of await factsOf(node)) sessions.observe(fact);
    expect(sessions.getCached(credentialOf(node)), 'an outdated session is not returned').toBeUndefined();
  }
  expect((await findAll()).map(({ node_status }) => node_status)).toEqual(nodes.map(() => 'offline'));
  expect(texts, 'one query renews all').toHaveLength(1);
});

it('drops every credential of an instance', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  await mustFind(sessions, node);
  const next = `the next ${credentialOf(node)}`;
  await db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [
    node.node_instance_id,
    hashSecret(next),
  ]);
  expect(await sessions.find(next, fleet.now())).toMatchObject({ node_id: node.node_id });
  expect(sessions.getCached(credentialOf(node)), 'the former one').toBeUndefined();
  expect(await sessions.find(credentialOf(node), fleet.now())).toBeUndefined();
  sessions.forget(node.node_instance_id as NodeInstanceId);
  expect(sessions.getCached(next)).toBeUndefined();
});

it('forgets all sessions, and marks those that callers hold as outdated', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  const held = await mustFind(sessions, node);
  sessions.forgetAll();
  expect(held.is_outdated).toBe(true);
  expect(sessions.getCached(credentialOf(node))).toBeUndefined();
});

it('does not accept the name of a client as a credential', async () => {
  const node = await readyNode();
  await db.query(`update instances set door = 'molecule' where node_instance_id = $1`, [node.node_instance_id]);
  const sessions = createAgentSessions(db);
  const { pool, name } = node;
  const place = { protocol: 'molecule', pool, name } as const;
  const session = await sessions.findByName(place);
  expect(session).toMatchObject({ node_instance_id: node.node_instance_id });
  expect(await sessions.findByName(place), 'by name, from the cache').toBe(session);
  const nameAsCredential = `molecule ${pool} ${name}`;
  expect(sessions.getCached(nameAsCredential)).toBeUndefined();
  expect(await sessions.find(nameAsCredential, fleet.now())).toBeUndefined();
  expect(await mustFind(sessions, node), 'by its credential').toBe(session);

  sessions.forget(node.node_instance_id as NodeInstanceId);
  expect(sessions.getCached(credentialOf(node)), 'after it was dropped').toBeUndefined();
  expect(await sessions.findByName(place), 'also by name').not.toBe(session);
});

const markCredentialUsed = (node: NodeRow) =>
  db.query('update instances set credential_used_at = $2 where node_instance_id = $1', [
    node.node_instance_id,
    fleet.now(),
  ]);

it('preloads agents that have used their credential', async () => {
  const [node, newcomer] = [await readyNode(), await readyNode()];
  await markCredentialUsed(node);
  const sessions = createAgentSessions(db);
  expect(await sessions.preload(systemClock, new AbortController().signal)).toBeGreaterThan(0);
  expect(sessions.getCached(credentialOf(node))?.node_status).toBe('ready');
  expect(sessions.getCached(credentialOf(newcomer))).toBeUndefined();
  expect((await mustFind(sessions, newcomer)).node_id).toBe(newcomer.node_id);
});

const fenceWith = (revoke: boolean) => (id: NodeInstanceId) =>
  db.transaction((tx) => fenceInstance(tx, id, { reason: 'it is over', revoke }, fleet.now()));

it.for<[string, (id: NodeInstanceId, node: NodeRow) => Promise<unknown>]>([
  ['is fenced', fenceWith(false)],
  ['is revoked', fenceWith(true)],
  [
    'is rotating its credential',
    (id) =>
      db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [id, hashSecret(id)]),
  ],
  [
    'is a former instance of its node',
    async (id, { node_id }) => {
      const next = `${id}_next`;
      await db.query(
        'insert into instances (node_instance_id, node_id, attempt, created_at) values ($1, $2, 2, now())',
        [next, node_id],
      );
      await db.query('update nodes set node_instance_id = $1 where node_id = $2', [next, node_id]);
    },
  ],
])('does not preload an agent that %s', async ([, change]) => {
  const node = await readyNode();
  await markCredentialUsed(node);
  const preload = async () => {
    const sessions = createAgentSessions(db);
    const count = await sessions.preload(systemClock, new AbortController().signal);
    return { count, known: sessions.getCached(credentialOf(node)) !== undefined };
  };
  const before = await preload();
  expect(before.known).toBe(true);
  await change(node.node_instance_id as NodeInstanceId, node);
  expect(await preload()).toEqual({ count: before.count - 1, known: false });
});

it('preloads the protocol of a foreign client', async () => {
  const node = await readyNode();
  await markCredentialUsed(node);
  const id = node.node_instance_id as NodeInstanceId;
  await db.query(`update instances set door = 'molecule' where node_instance_id = $1`, [id]);
  const sessions = createAgentSessions(db);
  await sessions.preload(systemClock, new AbortController().signal);
  expect(sessions.getCached(credentialOf(node))?.protocol_client).toMatchObject({
    protocol: 'molecule',
    name: node.name,
  });
});

it('does not preload an agent with a fact that arrives during the read', async () => {
  const node = await readyNode();
  await markCredentialUsed(node);
  let isOffline = false;
  const sessions: AgentSessions = createAgentSessions(
    observedStore(async () => {
      if (isOffline) return;
      isOffline = true;
      await moveOffline(node);
      for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
    }),
  );
  await sessions.preload(systemClock, new AbortController().signal);
  expect(sessions.getCached(credentialOf(node))).toBeUndefined();
  expect((await mustFind(sessions, node)).node_status).toBe('offline');
});

/** Creates more former instances than one page holds, with ids before or behind all others. */
const createFormerInstances = (node: NodeRow, place: 'before' | 'behind') =>
  db.query(
    `insert into instances (node_instance_id, node_id, attempt, created_at, credential_hash, credential_used_at)
     select $2 || to_char(n, 'FM00000'), $1, n + 10, now(), decode(md5($2 || n), 'hex'), now()
     from generate_series(1, 450) as n`,
    [node.node_id, place === 'before' ? 'inst_' : 'inst_~'],
  );

it('preloads page by page and pauses as long as each page took', async () => {
  const node = await readyNode();
  await markCredentialUsed(node);
  await createFormerInstances(node, 'before');
  let workedMs = 0;
  const pauses: number[] = [];
  const sessions = createAgentSessions(observedStore(() => (workedMs += 10)));
  await sessions.preload(
    {
      ...systemClock,
      monotonicMs: () => workedMs,
      after(delayMs, run) {
        pauses.push(delayMs);
        return systemClock.after(0, run);
      },
    },
    new AbortController().signal,
  );
  expect(pauses).toEqual([10, 10]);
  expect(sessions.getCached(credentialOf(node))?.node_status).toBe('ready');
});

it('stops preloading when it is aborted or the cache is full', async () => {
  const nodes = [await readyNode(), await readyNode(), await readyNode()] as const;
  for (const node of nodes) await markCredentialUsed(node);
  await createFormerInstances(nodes[0], 'behind');
  let read = 0;
  const stop = new AbortController();
  const preload = async (limit?: number, onAnswer?: () => void, { signal } = new AbortController()) => {
    read = 0;
    const store = observedStore(() => {
      read++;
      onAnswer?.();
    });
    return { count: await createAgentSessions(store, limit).preload(systemClock, signal), read };
  };
  const all = await preload();
  expect(await preload(undefined, () => stop.abort(), stop)).toMatchObject({ read: 1 });
  const few = await preload(2);
  expect(few.count).toBe(2);
  expect(few.read).toBeLessThan(all.read);
});
