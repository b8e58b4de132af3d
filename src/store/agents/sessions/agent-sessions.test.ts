/** What a replica remembers of an agent, when the facts that correct it come late, twice, or in the middle of a reading. */
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

/** From the table itself: a reader's view leaves out what any running transaction, of whatever test, may still precede. */
const factsOf = ({ node_id }: NodeRow): Promise<Evidence[]> =>
  db.query<Evidence & Row>('select * from evidence where node_id = $1 order by seq', [node_id]);

async function mustFind(sessions: AgentSessions, node: NodeRow): Promise<AgentSession> {
  const session = await sessions.find(credentialOf(node), fleet.now());
  return session ?? expect.fail('nobody has this credential');
}

const silence = (node: NodeRow) =>
  fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'it has been silent' });

/** The store with somebody who looks at each question, and may keep its answer back. */
const watched = (onAnswer: (text: string) => unknown): Database => ({
  ...db,
  async query(text, values) {
    const rows = await db.query<never>(text, values);
    await onAnswer(text);
    return rows;
  },
});

it('is not set back by facts that tell what it was before', async () => {
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

it('asks the store again only where a fact says something else', async () => {
  const node = await readyNode();
  let asked = 0;
  const sessions = createAgentSessions(watched(() => asked++));
  await mustFind(sessions, node);
  asked = 0;
  for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
  await mustFind(sessions, node);
  expect(asked, 'after what it knew').toBe(0);

  await silence(node);
  await mustFind(sessions, node);
  expect(asked, 'before it was told').toBe(0);
  for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
  expect(await mustFind(sessions, node)).toMatchObject({ node_status: 'offline', verdict_rule: 'liveness' });
  await mustFind(sessions, node);
  expect(asked, 'after news, once').toBe(1);
});

it('brings a session up to date for whoever holds it', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  const held = await mustFind(sessions, node);
  await silence(node);
  for (const fact of await factsOf(node)) sessions.observe(fact);
  await sessions.renew(held);
  expect(held.node_status).toBe('offline');
  expect(await mustFind(sessions, node), 'the same for everybody').toBe(held);

  sessions.forget(node.node_instance_id as NodeInstanceId);
  await fleet.move({ node_id: node.node_id, to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' });
  await sessions.renew(held);
  expect(held.node_status, 'also one that was forgotten').toBe('ready');
});

it('does not remember what was read before a fact came, though others read meanwhile', async () => {
  const node = await readyNode();
  const readings = [1, 2].map(() => ({ read: Promise.withResolvers<void>(), go: Promise.withResolvers<void>() }));
  const [first, second] = readings;
  const turns = [...readings];
  const sessions = createAgentSessions(
    watched((text) => {
      const turn = text.includes('tasks_waiting') ? turns.shift() : undefined;
      turn?.read.resolve();
      return turn?.go.promise;
    }),
  );
  const early = mustFind(sessions, node);
  await first?.read.promise;
  await silence(node);
  for (const fact of await factsOf(node)) sessions.observe(fact);
  const late = mustFind(sessions, node);
  await second?.read.promise;
  first?.go.resolve();
  expect((await early).node_status).toBe('offline');
  second?.go.resolve();
  expect((await late).node_status).toBe('offline');
});

it('keeps a fence that came while the credential was looked up', async () => {
  const node = await readyNode();
  const id = node.node_instance_id as NodeInstanceId;
  let once = false;
  const sessions = createAgentSessions(
    watched(async (text) => {
      if (once || !text.includes('instance.credential_hash in')) return;
      once = true;
      await db.query('update instances set fenced_at = now(), fence_reason = $2 where node_instance_id = $1', [
        id,
        'replaced',
      ]);
      const [any] = await factsOf(node);
      if (any) sessions.observe({ ...any, kind: 'instance.fenced' });
    }),
  );
  expect((await mustFind(sessions, node)).fence).toMatchObject({ kind: 'fenced', reason: 'replaced' });
});

it('finds whoever shows a new credential, though another call uses it between the questions', async () => {
  const node = await readyNode();
  const next = hashSecret(`next ${credentialOf(node)}`);
  const id = node.node_instance_id as NodeInstanceId;
  await db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [id, next]);
  const sessions = createAgentSessions(
    watched(async (text) => {
      if (text.includes('instance.credential_hash in'))
        await db.query(
          'update instances set credential_hash = $2, next_credential_hash = null where node_instance_id = $1',
          [id, next],
        );
    }),
  );
  expect(await sessions.find(`next ${credentialOf(node)}`, fleet.now())).toMatchObject({ node_instance_id: id });
});

it('says why an instance counts no more before the fact of its fence has come, and remembers it no longer', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  await mustFind(sessions, node);
  const id = node.node_instance_id as NodeInstanceId;
  await db.transaction((tx) => fenceInstance(tx, id, { reason: 'it joined again', revoke: false }, fleet.now()));
  expect(sessions.known(credentialOf(node)), 'nobody has told it').toBeDefined();
  expect(await sessions.whyFenced(id)).toBe('it joined again');
  expect(sessions.known(credentialOf(node))).toBeUndefined();
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

it('learns any number of agents by one question', async () => {
  const nodes = await Promise.all([1, 2, 3, 4, 5].map(readyNode));
  const texts: string[] = [];
  const sessions = createAgentSessions(watched((text) => texts.push(text)));
  const learn = () => Promise.all(nodes.map((node) => mustFind(sessions, node)));
  const found = await learn();
  expect(found.map((each) => each.node_id)).toEqual(nodes.map((node) => node.node_id));
  expect(texts, 'who they are, and that they were seen for the first time').toHaveLength(2);
  for (const [index, node] of nodes.entries()) expect(sessions.known(credentialOf(node))).toBe(found[index]);

  texts.length = 0;
  for (const node of nodes) {
    await silence(node);
    for (const fact of await factsOf(node)) sessions.observe(fact);
    expect(sessions.known(credentialOf(node)), 'nobody answers by what is doubted').toBeUndefined();
  }
  expect((await learn()).map((each) => each.node_status)).toEqual(nodes.map(() => 'offline'));
  expect(texts, 'and what became of all of them').toHaveLength(1);
});

it('forgets every credential of an instance', async () => {
  const node = await readyNode();
  const sessions = createAgentSessions(db);
  await mustFind(sessions, node);
  const next = `the next ${credentialOf(node)}`;
  await db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [
    node.node_instance_id,
    hashSecret(next),
  ]);
  expect(await sessions.find(next, fleet.now())).toMatchObject({ node_id: node.node_id });
  expect(sessions.known(credentialOf(node)), 'the former one').toBeUndefined();
  expect(await sessions.find(credentialOf(node), fleet.now())).toBeUndefined();
  sessions.forget(node.node_instance_id as NodeInstanceId);
  expect(sessions.known(next)).toBeUndefined();
});

it('believes nobody for showing the name that another came in by', async () => {
  const node = await readyNode();
  await db.query(`update instances set door = 'molecule' where node_instance_id = $1`, [node.node_instance_id]);
  const sessions = createAgentSessions(db);
  const { pool, name } = node;
  const place = { protocol: 'molecule', pool, name } as const;
  const session = await sessions.findByName(place);
  expect(session).toMatchObject({ node_instance_id: node.node_instance_id });
  expect(await sessions.findByName(place), 'by its name, from memory').toBe(session);
  const shown = `molecule ${pool} ${name}`;
  expect(sessions.known(shown)).toBeUndefined();
  expect(await sessions.find(shown, fleet.now())).toBeUndefined();
  expect(await mustFind(sessions, node), 'by its credential').toBe(session);

  sessions.forget(node.node_instance_id as NodeInstanceId);
  expect(sessions.known(credentialOf(node)), 'once forgotten').toBeUndefined();
  expect(await sessions.findByName(place), 'by its name as well').not.toBe(session);
});

const usedCredential = (node: NodeRow) =>
  db.query('update instances set credential_used_at = $2 where node_instance_id = $1', [
    node.node_instance_id,
    fleet.now(),
  ]);

it('learns who may be beating before they do, but for those who have yet to show their credential', async () => {
  const [node, newcomer] = [await readyNode(), await readyNode()];
  await usedCredential(node);
  const sessions = createAgentSessions(db);
  expect(await sessions.learnAll(systemClock, new AbortController().signal)).toBeGreaterThan(0);
  expect(sessions.known(credentialOf(node))?.node_status).toBe('ready');
  expect(sessions.known(credentialOf(newcomer))).toBeUndefined();
  expect((await mustFind(sessions, newcomer)).node_id).toBe(newcomer.node_id);
});

const fence = (revoke: boolean) => (id: NodeInstanceId) =>
  db.transaction((tx) => fenceInstance(tx, id, { reason: 'it is over', revoke }, fleet.now()));

it.for<[string, (id: NodeInstanceId, node: NodeRow) => Promise<unknown>]>([
  ['is fenced', fence(false)],
  ['is cut off', fence(true)],
  [
    'has a new credential to come',
    (id) =>
      db.query('update instances set next_credential_hash = $2 where node_instance_id = $1', [id, hashSecret(id)]),
  ],
  [
    'came before the instance that its node has now',
    async (id, { node_id }) => {
      const next = `${id}_next`;
      await db.query(
        'insert into instances (node_instance_id, node_id, attempt, created_at) values ($1, $2, 2, now())',
        [next, node_id],
      );
      await db.query('update nodes set node_instance_id = $1 where node_id = $2', [next, node_id]);
    },
  ],
])('does not learn one that %s', async ([, befall]) => {
  const node = await readyNode();
  await usedCredential(node);
  const learning = async () => {
    const sessions = createAgentSessions(db);
    const learnt = await sessions.learnAll(systemClock, new AbortController().signal);
    return { learnt, known: sessions.known(credentialOf(node)) !== undefined };
  };
  const before = await learning();
  expect(before.known).toBe(true);
  await befall(node.node_instance_id as NodeInstanceId, node);
  expect(await learning()).toEqual({ learnt: before.learnt - 1, known: false });
});

it('learns the protocol of a client that is not our agent', async () => {
  const node = await readyNode();
  await usedCredential(node);
  const id = node.node_instance_id as NodeInstanceId;
  await db.query(`update instances set door = 'molecule' where node_instance_id = $1`, [id]);
  const sessions = createAgentSessions(db);
  await sessions.learnAll(systemClock, new AbortController().signal);
  expect(sessions.known(credentialOf(node))?.protocol_client).toMatchObject({ protocol: 'molecule', name: node.name });
});

it('does not keep what it read of somebody who was spoken of meanwhile', async () => {
  const node = await readyNode();
  await usedCredential(node);
  let spoken = false;
  const sessions: AgentSessions = createAgentSessions(
    watched(async () => {
      if (spoken) return;
      spoken = true;
      await silence(node);
      for (const fact of (await factsOf(node)).slice(-1)) sessions.observe(fact);
    }),
  );
  await sessions.learnAll(systemClock, new AbortController().signal);
  expect(sessions.known(credentialOf(node))).toBeUndefined();
  expect((await mustFind(sessions, node)).node_status).toBe('offline');
});

/** Before all others in the order of their ids, or behind them, and nobody's any more; more than are read at once. */
const formerInstances = (node: NodeRow, place: 'before' | 'behind') =>
  db.query(
    `insert into instances (node_instance_id, node_id, attempt, created_at, credential_hash, credential_used_at)
     select $2 || to_char(n, 'FM00000'), $1, n + 10, now(), decode(md5($2 || n), 'hex'), now() from generate_series(1, 450) as n`,
    [node.node_id, place === 'before' ? 'inst_' : 'inst_~'],
  );

it('goes on after the first of them, and rests as long as it worked', async () => {
  const node = await readyNode();
  await usedCredential(node);
  await formerInstances(node, 'before');
  let workedMs = 0;
  const rests: number[] = [];
  const sessions = createAgentSessions(watched(() => (workedMs += 10)));
  await sessions.learnAll(
    {
      ...systemClock,
      monotonicMs: () => workedMs,
      after(delayMs, run) {
        rests.push(delayMs);
        return systemClock.after(0, run);
      },
    },
    new AbortController().signal,
  );
  expect(rests).toEqual([10, 10]);
  expect(sessions.known(credentialOf(node))?.node_status).toBe('ready');
});

it('learns nobody more once it is to stop, and no more than there is room for', async () => {
  const nodes = [await readyNode(), await readyNode(), await readyNode()] as const;
  for (const node of nodes) await usedCredential(node);
  await formerInstances(nodes[0], 'behind');
  let read = 0;
  const stop = new AbortController();
  const learning = async (most?: number, onAnswer?: () => void, { signal } = new AbortController()) => {
    read = 0;
    const store = watched(() => {
      read++;
      onAnswer?.();
    });
    return { learnt: await createAgentSessions(store, most).learnAll(systemClock, signal), read };
  };
  const everybody = await learning();
  expect(await learning(undefined, () => stop.abort(), stop)).toMatchObject({ read: 1 });
  const few = await learning(2);
  expect(few.learnt).toBe(2);
  expect(few.read).toBeLessThan(everybody.read);
});
