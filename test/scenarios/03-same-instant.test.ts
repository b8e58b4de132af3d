/**
 * A thousand registrations collide with the sweeps of two replicas: each node has exactly one outcome. And of several overdue
 * rows, one overridden and one that cannot be written, the rest are decided, though a probe hangs.
 */
import { createServer } from 'node:net';
import { expect } from 'vitest';
import { callRoute } from '../api/support/calls.ts';
import { registration } from '../api/support/machine.ts';
import { spawnServer } from '../support/server.ts';
import { externalPool, nodeOf } from './support/machines.ts';
import { judging, scenario, type World } from './support/scenario.ts';

const machines = 1_000;
const atOnce = 24;
/** Deadlines are strewn over this time, and so are the registrations. */
const strewnSeconds = 6;

interface Expected {
  node_id: string;
  enrollment_token: string;
}

/** Works through a list with so many hands. */
async function each<T>(items: T[], hands: number, work: (item: T, index: number) => Promise<void>): Promise<void> {
  const queue = items.entries();
  const hand = async () => {
    for (const [index, item] of queue) await work(item, index);
  };
  await Promise.all(Array.from({ length: hands }, hand));
}

async function expectMachines(world: World): Promise<Expected[]> {
  const expected: Expected[] = [];
  await each(Array.from({ length: machines }), atOnce, async () => {
    const { node, enrollment_token } = await world.client.call('node-create', { body: { pool: 'crowd' } });
    expected.push({ node_id: node.node_id, enrollment_token });
  });
  return expected;
}

interface Outcome {
  node_id: string;
  status: string;
  registrations: number;
  verdicts: number;
  rescues: number;
  verdict_after_registration: number;
}

/** What happened to each node, from its facts in the order in which they were committed. */
const outcomesSql = `
  select node.node_id, node.status,
    count(*) filter (where fact.data ->> 'by' = 'registration')::int as registrations,
    count(*) filter (where fact.data ->> 'by' = 'provision-deadline')::int as verdicts,
    count(*) filter (where fact.data ->> 'by' = 'late-registration')::int as rescues,
    count(*) filter (where fact.data ->> 'by' = 'provision-deadline' and exists (select 1 from evidence before
      where before.node_id = node.node_id and before.data ->> 'by' in ('registration', 'late-registration')
        and (before.xid, before.seq) < (fact.xid, fact.seq)))::int as verdict_after_registration
  from nodes node join evidence fact on fact.node_id = node.node_id and fact.kind like 'node.%'
  where node.pool = 'crowd' group by 1, 2`;

scenario({
  name: 'a thousand registrations against the sweeps of two replicas',
  async story(world) {
    await externalPool(world, 'crowd', {
      budgets: { provision_seconds: 3600, start_seconds: 3600 },
      brake: { fraction: 1, min_nodes: machines },
    });
    const expected = await expectMachines(world);
    const other = await spawnServer({ beside: world.server });
    try {
      await world.ledger.rows(
        `update nodes set deadline_at = clock_timestamp() + random() * interval '${strewnSeconds} seconds' where pool = 'crowd'`,
      );
      const servers = [world.server.url, other.url];
      await each(expected, atOnce, async ({ enrollment_token }, index) => {
        const url = servers[index % 2] ?? world.server.url;
        const reply = await callRoute(url, 'agent-register', { body: registration({ enrollment_token }) });
        expect(reply.status, `a registration inside its window was refused: ${reply.text}`).toBe(201);
      });
      const outcomes = await world.ledger.rows<Outcome>(outcomesSql);
      expect(outcomes).toHaveLength(machines);
      const given_up = outcomes.filter((node) => node.verdicts > 0);
      expect(given_up.length, 'some came after their deadline').toBeGreaterThan(0);
      expect(given_up.length, 'some came before it').toBeLessThan(machines);
      for (const node of outcomes) {
        const late = node.verdicts > 0 ? 1 : 0;
        expect(node).toMatchObject({
          status: 'starting',
          verdicts: late,
          rescues: late,
          registrations: 1 - late,
          verdict_after_registration: 0,
        });
      }
    } finally {
      await other.stop();
    }
  },
  counters: [
    {
      broken: 'failed machines that are not taken back',
      composition: judging((right) => ({
        effectOfRegistration: (node, now) =>
          node.status === 'failed' ? 'fenced' : right.effectOfRegistration(node, now),
      })),
      fails: /a registration inside its window was refused/,
      patience_seconds: 60,
    },
  ],
});

/** Takes connections and never says a word. */
async function silentServer(): Promise<{ url: string; close(): void }> {
  const server = createServer(() => {});
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

const provision_seconds = 2;

scenario({
  name: 'one row that cannot be written, one overridden, and a probe that hangs delay nobody',
  async story(world) {
    const silent = await silentServer();
    try {
      await externalPool(world, 'mixed', {
        budgets: { provision_seconds, start_seconds: 600 },
        probe: { allow_private: true, timeout_seconds: 30 },
        brake: { fraction: 1, min_nodes: 100 },
      });
      const expectOne = async (more: object = {}) =>
        (await world.client.call('node-create', { body: { pool: 'mixed', ...more } })).node.node_id;
      const hanging = await world.client.call('node-create', { body: { pool: 'mixed' } });
      const body = { ...registration({ enrollment_token: hanging.enrollment_token }), base_url: silent.url };
      await callRoute(world.server.url, 'agent-register', { body });
      const unwritable = await expectOne();
      await world.ledger.rows(`create function refuse_verdict() returns trigger language plpgsql as $$
        begin if new.node_id = '${unwritable}' and new.status = 'failed' then raise exception 'this row cannot be written'; end if; return new; end $$`);
      await world.ledger.rows(
        'create trigger refuse_verdict before update on nodes for each row execute function refuse_verdict()',
      );
      const overridden = await expectOne({ provision_timeout_seconds: 600 });
      const others = [await expectOne(), await expectOne(), await expectOne()];
      for (const id of others)
        await world.comes('the others to be given up', async () => {
          const node = await nodeOf(world, id);
          return node.status === 'failed' ? node : undefined;
        });
      expect((await nodeOf(world, overridden)).status).toBe('provisioning');
      expect((await nodeOf(world, unwritable)).status).toBe('provisioning');
      await world.comes('the one that cannot be written to be on record', async () => {
        const story = await world.client.call('node-timeline', { params: { id: unwritable }, query: { limit: 100 } });
        return story.items.find((fact) => fact.kind === 'verdict.unwritable');
      });
    } finally {
      silent.close();
    }
  },
  counters: [
    {
      broken: 'no rule provision-deadline',
      composition: { sweeps: (registry) => registry.filter((sweep) => sweep.name !== 'provision-deadline') },
      fails: /the others to be given up/,
    },
  ],
});
