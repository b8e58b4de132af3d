/**
 * Tests the drift rule with a scripted provider: when findings open and close, and when the pool's
 * policy acts and must not act.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Driver, DriverTarget, Observation } from '../../drivers/driver.ts';
import { defaultDriftSettings } from '../../lifecycle/findings/findings.ts';
import type { FindingRow } from '../../store/rows/findings.ts';
import { createInspector } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';
import { drift } from './drift.ts';

const { every_seconds, parked_seconds } = defaultDriftSettings;

const running: Observation = { state: 'running', present: true, ready: true, detail: null };
const absent: Observation = { state: 'absent', present: false, ready: false, detail: null };
const unseen: Observation = { state: 'unknown', present: true, ready: false, detail: null, unseen: true };

let fixture: RuleFixture;
let services: SweepServices;
/** Scripted observations by node; all other machines are running. */
let observations: Map<string, Observation>;
let inspected: string[];

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  observations = new Map();
  inspected = [];
  const driver = {
    name: 'scripted',
    launches: true,
    async inspect({ node_id }: DriverTarget) {
      inspected.push(node_id);
      return observations.get(node_id) ?? running;
    },
  } as unknown as Driver;
  services = {
    ...fixture.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
});
afterEach(() => fixture.close());

const readFindings = () => fixture.db.query<FindingRow>('select * from findings order by subject');
const readFacts = (kind: string) =>
  fixture.db.query<{ node_id: string }>('select node_id from evidence where kind = $1', [kind]);

async function addNodes(count: number, document: Parameters<RuleFixture['declarePool']>[1] = {}): Promise<NodeId[]> {
  await fixture.declarePool('fleet', { driver: 'scripted', ...document });
  return fixture.addNodes({ pool: 'fleet', count });
}

/**
 * Runs one sweep for `count` passes from pass `from`. Resolves to a function that continues the
 * same sweep.
 */
const runPasses = (from: number, count: number) => {
  const sweep = drift(services);
  const run = async (first: number, many: number) => {
    for (let pass = first; pass < first + many; pass++) await sweep.run(fixture.at(pass * every_seconds));
  };
  return run(from, count).then(() => run);
};

test('opens one finding for a missing machine, in the second pass', async () => {
  const [id = '' as NodeId] = await addNodes(2);
  observations.set(id, absent);
  const run = await runPasses(1, 1);
  expect(await readFindings()).toMatchObject([{ subject: id, status: 'seen', passes: 1, opened_at: null }]);
  await run(2, 3);
  expect(await readFindings()).toMatchObject([
    { subject: id, status: 'open', passes: 4, ours: { status: 'ready' }, theirs: { state: 'absent' } },
  ]);
  expect(await readFacts('finding.opened')).toEqual([{ node_id: id }]);
  expect(await readFacts('node.observed'), 'a repeated observation is not recorded again').toEqual([{ node_id: id }]);
  expect(await fixture.readNodes([id])).toMatchObject([{ status: 'ready', observed_state: 'absent' }]);
});

test('resolves an open finding when the machine is back, and deletes one that was seen only once', async () => {
  const [missedTwice = '' as NodeId, missedOnce = '' as NodeId] = await addNodes(2);
  observations.set(missedTwice, absent);
  const run = await runPasses(1, 1);
  observations.set(missedOnce, absent);
  await run(2, 1);
  observations.clear();
  await run(3, 1);
  expect(await readFindings()).toMatchObject([{ subject: missedTwice, status: 'resolved' }]);
  expect(await readFacts('finding.resolved')).toHaveLength(1);
});

test('closes a finding when its machine is no longer expected', async () => {
  const [id = '' as NodeId] = await addNodes(1);
  observations.set(id, absent);
  const run = await runPasses(1, 2);
  await fixture.db.query(`update nodes set status = 'failed' where node_id = $1`, [id]);
  await run(3, 1);
  expect(await readFindings()).toMatchObject([{ status: 'resolved', reason: 'the machine is not expected any more' }]);
});

test.each(['a proof', 'the residue ledger'])(
  'opens no finding for a machine that we removed ourselves according to %s',
  async (source) => {
    const [provenBefore = '' as NodeId, provenBetween = '' as NodeId, missing = '' as NodeId] = await addNodes(3);
    for (const id of [provenBefore, provenBetween, missing]) observations.set(id, absent);
    const prove = async (id: NodeId) => {
      const [node] = await fixture.readNodes([id]);
      const ids = [id, node?.node_instance_id ?? null, fixture.start];
      if (source === 'a proof')
        await fixture.db.query(
          `insert into evidence (at, layer, kind, summary, node_id, node_instance_id) values ($3, 'provider', 'proof.absent', 'gone', $1, $2)`,
          ids,
        );
      else
        await fixture.db.query(
          `insert into residue (residue_id, driver, kind, resource, node_id, node_instance_id, why, reason, since, status, proof)
         values ('res_' || $1, 'scripted', 'machine', $1, $1, $2, 'force-release', 'stuck', $3, 'gone', '{"kind": "absent"}')`,
          ids,
        );
    };
    await prove(provenBefore);
    const run = await runPasses(1, 1);
    // The first pass saw this machine missing after it was destroyed and before that was proven.
    await prove(provenBetween);
    await run(2, 2);
    expect(await readFindings()).toMatchObject([{ subject: missing, status: 'open' }]);
    expect(await readFacts('finding.opened')).toEqual([{ node_id: missing }]);
  },
);

test('two replicas at the same moment count as one pass', async () => {
  const [id = '' as NodeId] = await addNodes(1);
  observations.set(id, absent);
  const [one, other] = [drift(services), drift(services)];
  await one.run(fixture.at(1));
  await other.run(fixture.at(1.1));
  expect(await readFindings()).toMatchObject([{ status: 'seen', passes: 1 }]);
});

test('a driver that cannot see a machine neither opens nor closes a finding', async () => {
  const [id = '' as NodeId] = await addNodes(1);
  observations.set(id, absent);
  const run = await runPasses(1, 2);
  observations.set(id, unseen);
  await run(3, 2);
  expect(await readFindings()).toMatchObject([{ status: 'open', passes: 2 }]);
});

describe('a pool policy', () => {
  test('quarantine moves the node to quarantined and leaves its finding open', async () => {
    const [id = '' as NodeId] = await addNodes(6, { drift: { policy: 'quarantine' } });
    observations.set(id, absent);
    await runPasses(1, 3);
    expect(await fixture.countStatuses([id])).toEqual({ quarantined: 1 });
    expect(await fixture.readNodes([id])).toMatchObject([{ verdict: { rule: 'drift' } }]);
    expect(await readFindings()).toMatchObject([{ status: 'open' }]);
  });

  test('repair tears the node down', async () => {
    const [id = '' as NodeId] = await addNodes(6, { drift: { policy: 'repair' } });
    observations.set(id, absent);
    await runPasses(1, 3);
    expect(await fixture.countStatuses([id])).toEqual({ cleaning: 1 });
    expect(await fixture.db.query('select kind from operations')).toEqual([{ kind: 'node-retire' }]);
    expect(await readFindings()).toMatchObject([{ status: 'repaired' }]);
  });

  test.each(['repair', 'quarantine'] as const)(
    '%s is held when many machines are missing at once, because the provider is probably at fault',
    async (policy) => {
      const ids = await addNodes(10, { drift: { policy } });
      for (const id of ids) observations.set(id, absent);
      await runPasses(1, 3);
      expect(await fixture.countStatuses(ids)).toEqual({ ready: 10 });
      expect(await fixture.readNodes(ids.slice(0, 1))).toMatchObject([
        { held: { rule: 'drift', kind: 'mass-failure' } },
      ]);
      expect((await readFindings()).every(({ status }) => status === 'open')).toBe(true);
    },
  );

  test.each(['repair', 'quarantine'] as const)(
    '%s only records the verdict if the pool is observe-only',
    async (policy) => {
      const [id = '' as NodeId] = await addNodes(6, { mode: 'observe', drift: { policy } });
      observations.set(id, absent);
      await runPasses(1, 4);
      expect(await fixture.countStatuses([id])).toEqual({ ready: 1 });
      expect(await readFacts('node.would_have')).toEqual([{ node_id: id }]);
    },
  );
});

test('a hold ends with its findings', async () => {
  const ids = await addNodes(10, { drift: { policy: 'quarantine' } });
  for (const id of ids) observations.set(id, absent);
  const run = await runPasses(1, 3);
  const countHeld = async () => (await fixture.readNodes(ids)).filter(({ held }) => held !== null).length;
  expect(await countHeld()).toBe(ids.length);
  await brakeWatch(services).run(fixture.at(3 * every_seconds));
  expect(await countHeld(), 'nodes are held while their findings are open').toBe(ids.length);
  observations.clear();
  await run(4, 1);
  await brakeWatch(services).run(fixture.at(4 * every_seconds));
  expect(await countHeld()).toBe(0);
});

test('inspects quarantined nodes every hour and records each inspection', async () => {
  await fixture.declarePool('fleet', { driver: 'scripted' });
  const [id = '' as NodeId] = await fixture.addNodes({ pool: 'fleet', count: 1, status: 'quarantined' });
  const sweep = drift(services);
  for (let seconds = 0; seconds <= 2 * parked_seconds; seconds += parked_seconds / 4)
    await sweep.run(fixture.at(seconds));
  expect(inspected.length).toBeGreaterThanOrEqual(2);
  expect(inspected.length).toBeLessThanOrEqual(4);
  expect(await readFacts('node.observed')).toHaveLength(inspected.length);
  const [node] = await fixture.readNodes([id]);
  expect(node?.observed_at?.getTime()).toBeGreaterThan(fixture.at(parked_seconds).getTime());
});

test('sends a hanging driver no more requests than it has slots', async () => {
  const ids = await addNodes(40);
  let calls = 0;
  const hanging = {
    name: 'scripted',
    launches: true,
    inspect() {
      calls++;
      return new Promise(() => {});
    },
  };
  const inspect = createInspector({ ...services, drivers: new Map([['scripted', hanging as unknown as Driver]]) });
  const machines = ids.map((node_id) => ({ node_id, driver: 'scripted', driver_state: {} })) as never;
  const firstCall = inspect(machines);
  await fixture.clock.advance(10_000);
  const first = await firstCall;
  expect(first.inspections).toEqual([]);
  expect(first.unanswered.get('scripted')?.machines).toBe(ids.length);
  const second = await inspect(machines);
  expect(second.inspections).toEqual([]);
  expect(calls, 'the slots are taken until the driver answers').toBe(16);
});
