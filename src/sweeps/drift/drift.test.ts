/**
 * Which drift is found, when findings open and close, and when drift must not act; with a scripted
 * provider.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Driver, DriverTarget, Observation } from '../../drivers/driver.ts';
import { defaultDriftSettings } from '../../lifecycle/findings/findings.ts';
import type { FindingRow } from '../../store/rows/findings.ts';
import { createLooker } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';
import { drift } from './drift.ts';

const { every_seconds, parked_seconds } = defaultDriftSettings;

const there: Observation = { state: 'running', present: true, ready: true, detail: null };
const gone: Observation = { state: 'absent', present: false, ready: false, detail: null };
const elsewhere: Observation = { state: 'unknown', present: true, ready: false, detail: null, unseen: true };

let stage: Stage;
let services: SweepServices;
/** Scripted observations; all other machines are present. */
let says: Map<string, Observation>;
let inspected: string[];

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  says = new Map();
  inspected = [];
  const driver = {
    name: 'played',
    launches: true,
    async observe({ node_id }: DriverTarget) {
      inspected.push(node_id);
      return says.get(node_id) ?? there;
    },
  } as unknown as Driver;
  services = {
    ...stage.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
});
afterEach(() => stage.close());

const findings = () => stage.db.query<FindingRow>('select * from findings order by subject');
const facts = (kind: string) =>
  stage.db.query<{ node_id: string }>('select node_id from evidence where kind = $1', [kind]);

async function placed(count: number, document: Parameters<Stage['pool']>[1] = {}): Promise<NodeId[]> {
  await stage.pool('fleet', { driver: 'played', ...document });
  return stage.nodes({ pool: 'fleet', count });
}

/** Runs one sweep for several passes. */
const passes = (from: number, count: number) => {
  const sweep = drift(services);
  const run = async (first: number, many: number) => {
    for (let pass = first; pass < first + many; pass++) await sweep.run(stage.at(pass * every_seconds));
  };
  return run(from, count).then(() => run);
};

test('opens one finding for a missing machine, in the second pass', async () => {
  const [id = '' as NodeId] = await placed(2);
  says.set(id, gone);
  const run = await passes(1, 1);
  expect(await findings()).toMatchObject([{ subject: id, status: 'seen', passes: 1, opened_at: null }]);
  await run(2, 3);
  expect(await findings()).toMatchObject([
    { subject: id, status: 'open', passes: 4, ours: { status: 'ready' }, theirs: { state: 'absent' } },
  ]);
  expect(await facts('finding.opened')).toEqual([{ node_id: id }]);
  expect(await facts('node.observed'), 'the observation is news once').toEqual([{ node_id: id }]);
  expect(await stage.rows([id])).toMatchObject([{ status: 'ready', observed_state: 'absent' }]);
});

test('resolves a finding when the machine is back, and forgets a single sighting', async () => {
  const [found = '' as NodeId, glimpsed = '' as NodeId] = await placed(2);
  says.set(found, gone);
  const run = await passes(1, 1);
  says.set(glimpsed, gone);
  await run(2, 1);
  says.clear();
  await run(3, 1);
  expect(await findings()).toMatchObject([{ subject: found, status: 'resolved' }]);
  expect(await facts('finding.resolved')).toHaveLength(1);
});

test('closes a finding when its machine is no longer expected', async () => {
  const [id = '' as NodeId] = await placed(1);
  says.set(id, gone);
  const run = await passes(1, 2);
  await stage.db.query(`update nodes set status = 'failed' where node_id = $1`, [id]);
  await run(3, 1);
  expect(await findings()).toMatchObject([{ status: 'resolved', reason: 'the machine is not expected any more' }]);
});

test.each(['a proof', 'the residue ledger'])(
  'nobody misses a machine that %s says is gone by our own deed',
  async (by) => {
    const [known = '' as NodeId, between = '' as NodeId, missed = '' as NodeId] = await placed(3);
    for (const id of [known, between, missed]) says.set(id, gone);
    const prove = async (id: NodeId) => {
      const [node] = await stage.rows([id]);
      const ids = [id, node?.node_instance_id ?? null, stage.start];
      if (by === 'a proof')
        await stage.db.query(
          `insert into evidence (at, layer, kind, summary, node_id, node_instance_id) values ($3, 'provider', 'proof.absent', 'gone', $1, $2)`,
          ids,
        );
      else
        await stage.db.query(
          `insert into residue (residue_id, driver, kind, resource, node_id, node_instance_id, why, reason, since, status, proof)
         values ('res_' || $1, 'played', 'machine', $1, $1, $2, 'force-release', 'stuck', $3, 'gone', '{"kind": "absent"}')`,
          ids,
        );
    };
    await prove(known);
    const run = await passes(1, 1);
    // Observed after it was destroyed and before that was proven.
    await prove(between);
    await run(2, 2);
    expect(await findings()).toMatchObject([{ subject: missed, status: 'open' }]);
    expect(await facts('finding.opened')).toEqual([{ node_id: missed }]);
  },
);

test('two replicas at the same moment count as one pass', async () => {
  const [id = '' as NodeId] = await placed(1);
  says.set(id, gone);
  const [one, other] = [drift(services), drift(services)];
  await one.run(stage.at(1));
  await other.run(stage.at(1.1));
  expect(await findings()).toMatchObject([{ status: 'seen', passes: 1 }]);
});

test('a driver that cannot see a machine neither opens nor closes a finding', async () => {
  const [id = '' as NodeId] = await placed(1);
  says.set(id, gone);
  const run = await passes(1, 2);
  says.set(id, elsewhere);
  await run(3, 2);
  expect(await findings()).toMatchObject([{ status: 'open', passes: 2 }]);
});

describe('by policy', () => {
  test('quarantines a node, and its finding stays open', async () => {
    const [id = '' as NodeId] = await placed(6, { drift: { policy: 'quarantine' } });
    says.set(id, gone);
    await passes(1, 3);
    expect(await stage.statuses([id])).toEqual({ quarantined: 1 });
    expect(await stage.rows([id])).toMatchObject([{ verdict: { rule: 'drift' } }]);
    expect(await findings()).toMatchObject([{ status: 'open' }]);
  });

  test('tears a node down', async () => {
    const [id = '' as NodeId] = await placed(6, { drift: { policy: 'repair' } });
    says.set(id, gone);
    await passes(1, 3);
    expect(await stage.statuses([id])).toEqual({ cleaning: 1 });
    expect(await stage.db.query('select kind from operations')).toEqual([{ kind: 'node-retire' }]);
    expect(await findings()).toMatchObject([{ status: 'repaired' }]);
  });

  test.each(['repair', 'quarantine'] as const)(
    '%s of many at once is held: rather the provider is at fault',
    async (policy) => {
      const ids = await placed(10, { drift: { policy } });
      for (const id of ids) says.set(id, gone);
      await passes(1, 3);
      expect(await stage.statuses(ids)).toEqual({ ready: 10 });
      expect(await stage.rows(ids.slice(0, 1))).toMatchObject([{ held: { rule: 'drift', kind: 'mass-failure' } }]);
      expect((await findings()).every(({ status }) => status === 'open')).toBe(true);
    },
  );

  test.each(['repair', 'quarantine'] as const)(
    '%s only says what it would do where the pool is observed',
    async (policy) => {
      const [id = '' as NodeId] = await placed(6, { mode: 'observe', drift: { policy } });
      says.set(id, gone);
      await passes(1, 4);
      expect(await stage.statuses([id])).toEqual({ ready: 1 });
      expect(await facts('node.would_have')).toEqual([{ node_id: id }]);
    },
  );
});

test('a hold ends with its findings', async () => {
  const ids = await placed(10, { drift: { policy: 'quarantine' } });
  for (const id of ids) says.set(id, gone);
  const run = await passes(1, 3);
  const heldNow = async () => (await stage.rows(ids)).filter(({ held }) => held !== null).length;
  expect(await heldNow()).toBe(ids.length);
  await brakeWatch(services).run(stage.at(3 * every_seconds));
  expect(await heldNow(), 'as long as it is found, it is held').toBe(ids.length);
  says.clear();
  await run(4, 1);
  await brakeWatch(services).run(stage.at(4 * every_seconds));
  expect(await heldNow()).toBe(0);
});

test('inspects quarantined nodes every hour and records each look', async () => {
  await stage.pool('fleet', { driver: 'played' });
  const [id = '' as NodeId] = await stage.nodes({ pool: 'fleet', count: 1, status: 'quarantined' });
  const sweep = drift(services);
  for (let seconds = 0; seconds <= 2 * parked_seconds; seconds += parked_seconds / 4)
    await sweep.run(stage.at(seconds));
  expect(inspected.length).toBeGreaterThanOrEqual(2);
  expect(inspected.length).toBeLessThanOrEqual(4);
  expect(await facts('node.observed')).toHaveLength(inspected.length);
  const [node] = await stage.rows([id]);
  expect(node?.observed_at?.getTime()).toBeGreaterThan(stage.at(parked_seconds).getTime());
});

test('sends a hanging driver no more requests than it has slots', async () => {
  const ids = await placed(40);
  let calls = 0;
  const hanging = {
    name: 'played',
    launches: true,
    observe() {
      calls++;
      return new Promise(() => {});
    },
  };
  const look = createLooker({ ...services, drivers: new Map([['played', hanging as unknown as Driver]]) });
  const machines = ids.map((node_id) => ({ node_id, driver: 'played', driver_state: {} })) as never;
  const firstLook = look(machines);
  await stage.clock.advance(10_000);
  const first = await firstLook;
  expect(first.looked).toEqual([]);
  expect(first.unanswered.get('played')?.machines).toBe(ids.length);
  const again = await look(machines);
  expect(again.looked).toEqual([]);
  expect(calls, 'the places are taken until the driver answers').toBe(16);
});
