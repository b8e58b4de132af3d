/** Tests how machines are compared with the restored rows, with a scripted driver and agents. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import { now } from '../../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Driver, Observation, OwnedResource } from '../../drivers/driver.ts';
import { answerTask, leaseNext } from '../../store/agents/tasks.ts';
import { listDifferences } from '../../store/backup/restoration-differences.ts';
import { readNewestRestoration } from '../../store/backup/restorations.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { restoredMachines } from './restored-machines.ts';

let fixture: RuleFixture;
let listed: OwnedResource[];
let absent: Set<string>;
let driver: Partial<Driver>;
let isOpen: boolean;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  listed = [];
  absent = new Set();
  driver = {};
  isOpen = true;
  await fixture.declarePool('yard', { driver: 'yard' });
  await fixture.db.query(
    `insert into restorations (restoration_id, sign, began_at) values ('rst_1', 'backup_loaded', $1)`,
    [fixture.start],
  );
});
afterEach(() => fixture.close());

const instanceOf = (node_id: NodeId) => node_id.replace('node_', 'inst_') as NodeInstanceId;

const resourceOf = (node_id: string, instance: string): OwnedResource => ({
  ...{ kind: 'vm', resource: `vm/${instance}` },
  node_id: node_id as NodeId,
  node_instance_id: instance as NodeInstanceId,
});

const present: Observation = { state: 'running', present: true, ready: true, detail: null };

/** Returns a function that runs one pass of the sweep of a new replica. */
function replica(host = 'here') {
  const services: SweepServices = {
    ...fixture.services,
    host,
    installation: { installation_id: 'test' } as SweepServices['installation'],
    restoration: { isObserving: () => isOpen },
    drivers: new Map([
      [
        'yard',
        simulatedDriver({
          name: 'yard',
          list_owned: async () => listed,
          inspect: async ({ node_id }) =>
            absent.has(node_id) ? { ...present, state: 'absent', present: false } : present,
          ...driver,
        }),
      ],
    ]),
  };
  const { run } = restoredMachines(services);
  return async () => {
    // Longer than the pause between two comparisons with the providers.
    await fixture.clock.advance(60_000);
    return run(now(fixture.clock));
  };
}

const list = async () => {
  const restoration = await readNewestRestoration(fixture.db);
  if (!restoration) throw new Error('there is no restoration');
  const { items } = await listDifferences(fixture.db, restoration, { cursor: '', limit: 100 });
  return items.map(({ kind, subject }) => `${kind} ${subject}`);
};
const isInspected = async () => (await readNewestRestoration(fixture.db))?.inspected_at !== null;

/** Adds ready nodes that allocations hold, and whose agents are heard after the restore. */
async function addHeld(count: number): Promise<NodeId[]> {
  const ids = await fixture.addNodes({ pool: 'yard', count, status: 'ready', last_seen_at: fixture.at(5) });
  for (const id of ids)
    await fixture.db.query(
      `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
       values ('alloc_of_' || $1, 'yard', $1, 't', 'active', $2, 'c', $2)`,
      [id, fixture.at(-3600)],
    );
  return ids;
}

test('lists machines that came, went and got another instance, and stores when all were inspected', async () => {
  const [same, gone, replaced] = (await addHeld(3)) as [NodeId, NodeId, NodeId];
  listed = [
    resourceOf(same, instanceOf(same)),
    resourceOf('node_new', 'inst_new'),
    resourceOf(replaced, 'inst_z_later'),
  ];
  absent.add(gone);
  const run = replica();
  expect(await run()).toEqual({ decided: 0 });
  expect(await list()).toEqual(['came vm/inst_new', `changed_hands ${replaced}`, `gone ${gone}`]);
  expect(await isInspected()).toBe(true);
  // Differences that are no longer seen are no longer listed.
  listed = [resourceOf(same, instanceOf(same))];
  absent.clear();
  await run();
  expect(await list()).toEqual([]);
  expect((await fixture.readNodes([same, gone, replaced])).map(({ status }) => status)).toEqual(Array(3).fill('ready'));
});

test('asks each agent for its last release, and again if the ping expires', async () => {
  const [node] = (await addHeld(1)) as [NodeId];
  const countPings = async () => (await fixture.db.query(`select from tasks where type = 'ping'`)).length;
  const run = replica();
  await run();
  await run();
  expect(await countPings()).toBe(1);
  await fixture.clock.advance(200_000);
  await run();
  expect(await countPings()).toBe(2);
  const at = now(fixture.clock);
  await fixture.db.transaction(async (tx) => {
    const task = await leaseNext(tx, instanceOf(node), at, 'pings');
    const result = { pong: true, last_release: 'wf_zzz' };
    await answerTask(tx, task?.task_id ?? '', instanceOf(node), { status: 'succeeded', result }, at);
  });
  await run();
  expect(await list()).toEqual([`changed_hands ${node}`]);
  expect(await countPings()).toBe(2);
});

test('the inspection is complete without machines that a driver cannot see, but not while the driver fails', async () => {
  await addHeld(1);
  driver = { inspect: async () => Promise.reject(new Error('away')) };
  await expect(replica()()).rejects.toThrow('not all machines were inspected: yard');
  expect(await isInspected()).toBe(false);
  driver = { inspect: async () => ({ ...present, unseen: true }) as Observation };
  await replica()();
  expect(await isInspected()).toBe(true);
});

test('the inspection is not complete while a driver hangs', async () => {
  await addHeld(17);
  let isWaiting = false;
  driver = {
    inspect() {
      isWaiting = true;
      return new Promise(() => {});
    },
  };
  const run = replica();
  for (const _ of [1, 2]) {
    let isOver = false;
    const pass = expect(run())
      .rejects.toThrow('not all machines were inspected')
      .finally(() => {
        isOver = true;
      });
    while (!isOver) {
      // Until it calls the driver, the pass advances the clock itself.
      if (isWaiting) await fixture.clock.advance(1000);
      await fixture.db.query('select 1');
    }
    await pass;
    isWaiting = false;
    expect(await isInspected()).toBe(false);
  }
});

test('a replica on another host keeps the differences that it cannot see', async () => {
  const [gone] = (await addHeld(1)) as [NodeId];
  absent.add(gone);
  await replica('one')();
  driver = { inspect: async () => ({ ...present, unseen: true }) as Observation };
  await replica('two')();
  expect(await list()).toEqual([`gone ${gone}`]);
});

test('a driver that fails keeps its differences, and the others are still compared', async () => {
  const [gone] = (await addHeld(1)) as [NodeId];
  listed = [resourceOf('node_new', 'inst_new')];
  await replica()();
  driver = { list_owned: async () => Promise.reject(new Error('away')) };
  absent.add(gone);
  await expect(replica()()).rejects.toThrow('away');
  expect(await list()).toEqual(['came vm/inst_new', `gone ${gone}`]);
});

test('compares nothing once the restoration has ended', async () => {
  listed = [resourceOf('node_new', 'inst_new')];
  isOpen = false;
  expect(await replica()()).toEqual({ decided: 0 });
  isOpen = true;
  await fixture.db.query('update restorations set ended_at = now()');
  expect(await replica()()).toEqual({ decided: 0 });
  expect(await list()).toEqual([]);
});
