/**
 * A thousand registrations race with the sweeps of two replicas: each node has exactly one outcome,
 * and its allocation follows it. A second scenario has one row that cannot be written, one with a
 * longer budget and a hanging probe: the other overdue rows are still decided in time.
 */
import { createServer } from 'node:net';
import { expect } from 'vitest';
import { pause, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { lockDueNodes } from '../../../src/store/supervision/past-deadline.ts';
import { transition } from '../../../src/store/transitions/node-transition.ts';
import type { SweepServices } from '../../../src/sweeps/runner/services.ts';
import type { Sweep } from '../../../src/sweeps/runner/sweep.ts';
import { callRoute } from '../../api/support/calls.ts';
import { registration } from '../../api/support/machine.ts';
import { spawnServer } from '../../support/server.ts';
import { externalPool, nodeOf } from '../support/machines.ts';
import { type ScenarioContext, scenario, withDeciders } from '../support/scenario.ts';

const manyMachines = 1_000;
/** Enough machines to make a counter-test fail. */
const fewMachines = 200;
let machines = manyMachines;
/** Machines that never register. */
const silentMachines = 100;
const concurrency = 24;
/** The machines register in groups of this size. */
const groupSize = 250;
/**
 * The time over which the deadlines of the first group are spread. Each further group gets the time
 * that the registrations of the one before took, so that deadlines and registrations race on a
 * machine of any speed.
 */
const firstSpreadSeconds = 2;

interface CreatedNode {
  node_id: string;
  enrollment_token: string;
}

/** Processes a list with the given number of concurrent workers. */
async function processConcurrently<T>(
  items: T[],
  workers: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) await work(item, index);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}

async function createNode(context: ScenarioContext, more: object = {}): Promise<CreatedNode> {
  const { node, enrollment_token } = await context.client.call('node-create', { body: { pool: 'crowd', ...more } });
  return { node_id: node.node_id, enrollment_token };
}

async function createNodes(context: ScenarioContext, count: number): Promise<CreatedNode[]> {
  const createdNodes: CreatedNode[] = [];
  await processConcurrently(Array.from({ length: count }), concurrency, async () => {
    createdNodes.push(await createNode(context));
  });
  return createdNodes;
}

/**
 * Deadlines written directly to the table notify no replica, so the rule might run only after all
 * of them. An announced short deadline makes both replicas run the rule, and each run schedules the
 * next one for the next deadline.
 */
const wakeRule = (context: ScenarioContext) => createNode(context, { provision_timeout_seconds: 1 });

/** Assigns every second machine to an allocation. */
const assignMachines = `
  insert into allocations (allocation_id, pool, node_id, tenant, status, status_since,
    correlation_id, deadline_at, budget_seconds, budget_source, created_at)
  select 'alloc_of_' || node_id, pool, node_id, 'acme', 'provisioning', status_since,
    correlation_id, deadline_at, budget_seconds, budget_source, created_at
  from unnest($1::text[]) with ordinality as listed(id, place)
  join nodes on node_id = id
  where place % 2 = 0`;

/**
 * Sets the deadlines in the order of the registrations, each earlier or later by up to half of the
 * spread, so that some pass before the registration and some after it.
 */
const spreadDeadlines = `
  update nodes
  set deadline_at = clock_timestamp()
    + make_interval(secs => $2::float * (place / cardinality($1::text[])::float + random() - 0.5))
  from unnest($1::text[]) with ordinality as listed(id, place)
  where node_id = id`;

interface Outcome {
  node_id: string;
  status: string;
  registrations: number;
  verdicts: number;
  rescues: number;
  verdict_after_registration: number;
  allocation: string | null;
  allocation_failures: number;
  allocation_rescues: number;
}

/** Counts the changes of each node from its evidence, in commit order. */
const outcomesSql = `
  select node.node_id, node.status, allocation.status as allocation,
    count(*) filter (where fact.kind like 'node.%' and fact.data ->> 'by' = 'registration')::int as registrations,
    count(*) filter (where fact.kind like 'node.%' and fact.data ->> 'by' = 'provision-deadline')::int as verdicts,
    count(*) filter (where fact.kind like 'node.%' and fact.data ->> 'by' = 'late-registration')::int as rescues,
    count(*) filter (
      where fact.kind like 'node.%'
        and fact.data ->> 'by' = 'provision-deadline'
        and exists (
          select 1
          from evidence before
          where before.node_id = node.node_id
            and before.data ->> 'by' in ('registration', 'late-registration')
            and (before.xid, before.seq) < (fact.xid, fact.seq)
        )
    )::int as verdict_after_registration,
    count(*) filter (where fact.kind = 'allocation.failed')::int as allocation_failures,
    count(*) filter (where fact.kind = 'allocation.provisioning')::int as allocation_rescues
  from nodes node
  join evidence fact on fact.node_id = node.node_id
  left join allocations allocation on allocation.node_id = node.node_id
  where node.pool = 'crowd'
  group by 1, 2, 3`;

/**
 * A node that registers either did so before any verdict, or failed once and was rescued once. Its
 * allocation failed and was rescued with it.
 */
function isOneOutcome(node: Outcome, registers: boolean): boolean {
  const hasFailed = node.verdicts === 1;
  const wasRescued = registers && hasFailed;
  const isHeld = node.allocation !== null;
  return (
    node.verdict_after_registration === 0 &&
    node.verdicts <= 1 &&
    (registers || hasFailed) &&
    node.status === (registers ? 'starting' : 'failed') &&
    node.rescues === Number(wasRescued) &&
    node.registrations === Number(registers && !hasFailed) &&
    (!isHeld || node.allocation === (registers ? 'provisioning' : 'failed')) &&
    node.allocation_failures === Number(isHeld && hasFailed) &&
    node.allocation_rescues === Number(isHeld && wasRescued)
  );
}

/** A server in which one rule runs differently. */
const withRun = (name: string, run: (services: SweepServices, right: Sweep) => Sweep['run']): Composition => ({
  sweeps: (registry, services) =>
    registry.map((sweep) => (sweep.name === name ? { ...sweep, run: run(services, sweep) } : sweep)),
});

/** Uses fewer machines in counter-tests, which must fail anyway. */
const withFewer = async (run: () => Promise<void>) => {
  machines = fewMachines;
  await run().finally(() => {
    machines = manyMachines;
  });
};

const verdict = { to: 'failed', by: 'provision-deadline', reason: 'the deadline has passed' } as const;

/** Reads first and writes later without a guard, so it overwrites a registration in between. */
const unguardedSweep = withRun('provision-deadline', ({ db }) => async (now) => {
  const due = await db.transaction((tx) => lockDueNodes(tx, { status: 'provisioning', now }, manyMachines));
  await pause(systemClock, 100);
  const deadline_at = secondsLater(now, 3600);
  await db.query(
    `update nodes
     set status = 'failed', status_since = $2, deadline_at = $3, verdict = '{"rule": "provision-deadline"}'
     where node_id = any($1)`,
    [due.map(({ node_id }) => node_id), now, deadline_at],
  );
  return { decided: due.length, next_in_seconds: 0.1 };
});

scenario({
  name: 'a thousand registrations against the sweeps of two replicas',
  async story(context) {
    await externalPool(context, 'crowd', {
      // On a busy machine the story may outlast the default rescue window of a short budget.
      budgets: { provision_seconds: 3600, start_seconds: 3600, rescue_seconds: 3600 },
      brake: { fraction: 1, min_nodes: 2 * machines + silentMachines },
    });
    const expected = await createNodes(context, machines + silentMachines);
    const registering = expected.slice(0, machines);
    const wakers: CreatedNode[] = [];
    const otherReplica = await spawnServer({ beside: context.server });
    try {
      await context.db.query(assignMachines, [expected.map(({ node_id }) => node_id)]);
      const servers = [context.server.url, otherReplica.url];
      const register = async ({ enrollment_token }: CreatedNode, index: number) => {
        const url = servers[index % 2] ?? context.server.url;
        const reply = await callRoute(url, 'agent-register', { body: registration({ enrollment_token }) });
        expect(reply.status, `a registration inside its window was refused: ${reply.text}`).toBe(201);
      };
      let spreadSeconds = firstSpreadSeconds;
      for (let first = 0; first < expected.length; first += groupSize) {
        const group = expected.slice(first, first + groupSize);
        const ids = group.map(({ node_id }) => node_id);
        wakers.push(await wakeRule(context));
        await context.db.query(spreadDeadlines, [ids, spreadSeconds]);
        const startedMs = systemClock.monotonicMs();
        await processConcurrently(group, concurrency, async (node, index) => {
          if (first + index >= machines) return;
          const turnMs = startedMs + (1000 * spreadSeconds * index) / group.length;
          await pause(systemClock, Math.max(0, turnMs - systemClock.monotonicMs()));
          await register(node, index);
        });
        spreadSeconds = Math.max(firstSpreadSeconds, (systemClock.monotonicMs() - startedMs) / 1000);
      }
      const registeringIds = new Set(registering.map(({ node_id }) => node_id));
      const outcomes = await context.waitFor('all machines that never register to fail', async () => {
        const rows = await context.db.query<Outcome>(outcomesSql);
        const isUndecided = rows.some(
          ({ node_id, status }) => !registeringIds.has(node_id) && status === 'provisioning',
        );
        return isUndecided ? undefined : rows;
      });
      expect(outcomes).toHaveLength(expected.length + wakers.length);
      const wrongOutcomes = outcomes.filter((node) => !isOneOutcome(node, registeringIds.has(node.node_id)));
      expect(wrongOutcomes, 'each node has exactly one outcome').toEqual([]);
      const lateCount = outcomes.filter((node) => node.rescues > 0).length;
      expect(lateCount, 'machines that registered after their verdict').toBeGreaterThan(0);
      expect(lateCount, 'machines that registered after their verdict, but not all').toBeLessThan(machines);
    } finally {
      await otherReplica.stop();
    }
  },
  counterTests: [
    {
      broken: 'failed machines that are not rescued',
      around: withFewer,
      composition: withDeciders((right) => ({
        effectOfRegistration: (node, now) =>
          node.status === 'failed' ? 'fenced' : right.effectOfRegistration(node, now),
      })),
      fails: /a registration inside its window was refused/,
    },
    {
      broken: 'a sweep that writes stale reads',
      around: withFewer,
      composition: unguardedSweep,
      fails: /each node has exactly one outcome/,
    },
  ],
});

/** Accepts connections and never answers. */
async function startSilentServer(): Promise<{ url: string; connections(): number; close(): void }> {
  let connections = 0;
  const server = createServer(() => {
    connections++;
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, connections: () => connections, close: () => server.close() };
}

const provision_seconds = 2;
const probe_timeout_seconds = 30;
/** Longer than the wait by which the counter-test must fail. */
const probe_seconds = 10;

/** Decides all due rows in one transaction and tries nothing else when it fails. */
const allOrNothing = withRun('provision-deadline', ({ db, environment }) => (now) => {
  return db.transaction(async (tx) => {
    const due = await lockDueNodes(tx, { status: 'provisioning', now }, manyMachines);
    const moves = due.map(({ node_id }) => ({ ...verdict, node_id }));
    const outcomes = await transition(tx, moves, now, environment);
    return { decided: outcomes.filter(({ moved }) => moved).length };
  });
});

/** Probes the machine first and waits for its answer. */
const probesFirst = withRun('provision-deadline', ({ db }, right) => async (now) => {
  const endpoints = await db.query<{ endpoint: string }>('select endpoint from nodes where endpoint is not null');
  for (const { endpoint } of endpoints)
    await fetch(endpoint, { signal: AbortSignal.timeout(probe_seconds * 1000) }).catch(() => {});
  return right.run(now);
});

scenario({
  name: 'an unwritable row, an overridden one and a hanging probe delay no other row',
  async story(context) {
    const silentListener = await startSilentServer();
    try {
      await externalPool(context, 'mixed', {
        budgets: { provision_seconds, start_seconds: 600 },
        probe: { allow_private: true, timeout_seconds: probe_timeout_seconds },
        brake: { fraction: 1, min_nodes: 100 },
      });
      const createMixedNode = async (more: object = {}) =>
        (await context.client.call('node-create', { body: { pool: 'mixed', ...more } })).node.node_id;
      const hanging = await context.client.call('node-create', { body: { pool: 'mixed' } });
      const body = { ...registration({ enrollment_token: hanging.enrollment_token }), base_url: silentListener.url };
      await callRoute(context.server.url, 'agent-register', { body });
      await context.waitFor('the hanging machine to be probed', () => silentListener.connections() > 0);
      const unwritable = await createMixedNode();
      await context.db.query(`create function refuse_verdict() returns trigger language plpgsql as $$
        begin if new.node_id = '${unwritable}' and new.status = 'failed' then raise exception 'this row cannot be written'; end if; return new; end $$`);
      await context.db.query(
        'create trigger refuse_verdict before update on nodes for each row execute function refuse_verdict()',
      );
      const overridden = await createMixedNode({ provision_timeout_seconds: 600 });
      const otherIds = [await createMixedNode(), await createMixedNode(), await createMixedNode()];
      for (const id of otherIds)
        await context.waitFor('the other machines to fail', async () => {
          const node = await nodeOf(context, id);
          return node.status === 'failed' ? node : undefined;
        });
      expect((await nodeOf(context, overridden)).status).toBe('provisioning');
      expect((await nodeOf(context, unwritable)).status).toBe('provisioning');
      await context.waitFor('evidence of the unwritable row', async () => {
        const query = { limit: 100 };
        const { items } = await context.client.call('node-timeline', { params: { id: unwritable }, query });
        return items.find((fact) => fact.kind === 'verdict.unwritable');
      });
      const { items } = await context.client.call('sweep-list', {});
      const { lateness_seconds } = items.find(({ name }) => name === 'provision-deadline') ?? {};
      expect(lateness_seconds, 'how late the verdicts were').toBeLessThan(probe_timeout_seconds / 3);
      expect(lateness_seconds).not.toBeNull();
    } finally {
      silentListener.close();
    }
  },
  counterTests: [
    {
      broken: 'no provision-deadline rule',
      composition: { sweeps: (registry) => registry.filter((sweep) => sweep.name !== 'provision-deadline') },
      fails: /the other machines to fail/,
    },
    {
      broken: 'a sweep that stops at an unwritable row',
      composition: allOrNothing,
      fails: /the other machines to fail/,
    },
    { broken: 'a sweep that probes machines itself', composition: probesFirst, fails: /the other machines to fail/ },
  ],
});
