/**
 * The orphans sweep on a real store with a scripted driver: reports, ignores and resolves residue.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Driver, OwnedResource } from '../../drivers/driver.ts';
import { defaultOrphanSettings } from '../../lifecycle/findings/residue.ts';
import { leaveResidue, listResidue, settleResidue } from '../../store/rows/residue.ts';
import type { SweepServices } from '../runner/services.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { orphans } from './orphans.ts';

const { every_seconds } = defaultOrphanSettings;

let stage: Stage;
let listed: OwnedResource[];
let proven: Set<string>;
let driver: Partial<Driver>;

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  listed = [];
  proven = new Set();
  driver = {};
  await stage.pool('yard');
});
afterEach(() => stage.close());

const thing = (instance: string | null, resource = `vm/${instance}`): OwnedResource => ({
  kind: 'vm',
  resource,
  node_id: 'node_1' as NodeId,
  node_instance_id: instance as NodeInstanceId | null,
});

const servicesOf = (): SweepServices => ({
  ...stage.services,
  installation: { installation_id: 'here' } as SweepServices['installation'],
  drivers: new Map([
    [
      'yard',
      simulatedDriver({
        name: 'yard',
        list_owned: async () => listed,
        prove: async ({ node_instance_id }, { kind, nonce }) =>
          proven.has(node_instance_id)
            ? { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the yard', seen: 'nothing' }] } }
            : { outcome: 'failed', owner_layer: 'provider', code: 'there', message: 'still there', retryable: true },
        ...driver,
      }),
    ],
  ]),
});

/** The sweep of one replica, a pass at a time. */
function replica() {
  const { run } = orphans(servicesOf());
  return async () => {
    await stage.clock.advance(every_seconds * 1000);
    return run(stage.at((stage.clock.nowMs() - stage.start.getTime()) / 1000));
  };
}

const ledger = async () => (await listResidue(stage.db, { limit: 100 })).items;
const facts = async (kind: string) => (await stage.db.query('select 1 from evidence where kind = $1', [kind])).length;

test('records residue seen twice without an owner, once for all replicas', async () => {
  const [one, another] = [replica(), replica()];
  listed = [{ ...thing('inst_unknown'), cost_per_hour: 2.5 }];
  await one();
  await another();
  expect(await ledger()).toEqual([]);
  await one();
  await another();
  await one();
  expect(await ledger()).toMatchObject([
    { why: 'orphan', status: 'open', resource: 'vm/inst_unknown', cost_per_hour: 2.5, pool: null, seen: 'still there' },
  ]);
  expect(await facts('residue.found')).toBe(1);
});

test('two immediate looks count as one', async () => {
  const { run } = orphans(servicesOf());
  listed = [thing('inst_unknown')];
  await run(stage.at(0));
  await run(stage.at(1));
  expect(await ledger()).toEqual([]);
});

test('the current instance of a live node is owned; leftovers of a retired node are not', async () => {
  const [live] = await stage.nodes({ pool: 'yard', count: 1 });
  const [retired] = await stage.nodes({ pool: 'yard', count: 1, status: 'retired' });
  const rows = await stage.rows([live as NodeId, retired as NodeId]);
  listed = rows.map((row) => thing(row.node_instance_id));
  const pass = replica();
  for (let i = 0; i < 3; i++) await pass();
  expect(await ledger()).toMatchObject([
    {
      node_instance_id: rows.find((row) => row.status === 'retired')?.node_instance_id,
      pool: 'yard',
      reason: 'its machine was retired',
    },
  ]);
});

test('a machine whose row is written after its tag, or whose tag outlives its row, is no orphan', async () => {
  const pass = replica();
  listed = [thing('inst_yard_1')];
  await pass();
  await stage.nodes({ pool: 'yard', count: 1 });
  for (let i = 0; i < 3; i++) await pass();
  await stage.db.query(`update nodes set status = 'retired'`);
  await pass();
  listed = [];
  for (let i = 0; i < 3; i++) await pass();
  listed = [thing('inst_yard_1')];
  await pass();
  expect(await ledger()).toEqual([]);
});

test('stays open until the driver proves it gone, and is reported once', async () => {
  const pass = replica();
  listed = [thing('inst_a'), thing('inst_a', 'disk/a'), thing('inst_b')];
  for (let i = 0; i < 4; i++) await pass();
  expect(await ledger()).toHaveLength(3);
  // Missing from the list is no proof.
  listed = [];
  await pass();
  expect((await ledger()).map(({ status }) => status)).toEqual(['open', 'open', 'open']);
  proven.add('inst_a');
  await pass();
  const after = await ledger();
  expect(
    after
      .filter(({ status }) => status === 'gone')
      .map(({ resource }) => resource)
      .sort(),
  ).toEqual(['disk/a', 'vm/inst_a']);
  expect(after.find(({ status }) => status === 'gone')).toMatchObject({
    seen: 'the yard: nothing',
    proof: { kind: 'absent' },
  });
  await pass();
  expect(await facts('residue.gone')).toBe(2);
  // Each is verified once, not in every pass.
  expect(await facts('residue.verified')).toBe(3);
});

test('does not report adopted residue again, and reopens residue that comes back', async () => {
  const pass = replica();
  listed = [thing('inst_a'), thing('inst_b')];
  for (let i = 0; i < 2; i++) await pass();
  const [b, a] = await ledger();
  const teller = { layer: 'operator' } as const;
  await stage.db.transaction(async (tx) => {
    await settleResidue(
      tx,
      { residue_id: a?.residue_id ?? '' },
      { status: 'adopted', reason: 'mine' },
      teller,
      stage.at(1),
    );
    await settleResidue(tx, { residue_id: b?.residue_id ?? '' }, { status: 'gone' }, teller, stage.at(1));
  });
  for (let i = 0; i < 3; i++) await pass();
  const open = (await ledger()).filter(({ status }) => status === 'open');
  expect(open.map(({ resource }) => resource)).toEqual([b?.resource]);
});

test('a replica does not judge what another host holds', async () => {
  driver = { host_bound: true, host_id: 'this-host' };
  const left = (host: string, instance: string) => ({
    ...{ driver: 'yard', pool: 'yard', host, kind: 'vm', resource: `vm/${instance}`, node_id: null, reason: 'forced' },
    ...{ node_instance_id: instance as NodeInstanceId, allocation_id: null, correlation_id: null, workflow_id: null },
    ...{ forced_by: null, seen: 'unproven', cost_per_hour: null },
  });
  await stage.db.transaction((tx) =>
    leaveResidue(
      tx,
      [left('this-host', 'inst_here'), left('other-host', 'inst_there')],
      { layer: 'operator' },
      stage.clock,
    ),
  );
  proven = new Set(['inst_here', 'inst_there']);
  await replica()();
  const status = Object.fromEntries((await ledger()).map((each) => [each.host, each.status]));
  expect(status).toEqual({ 'this-host': 'gone', 'other-host': 'open' });
});

test('a revoked credential does not prove a permanent machine clean', async () => {
  driver = { launches: false, final_proof: 'revoked' };
  const [node] = await stage.rows(await stage.nodes({ pool: 'yard', count: 1 }));
  const left = {
    ...{ driver: 'yard', pool: 'yard', host: null, kind: 'machine', resource: 'm', node_id: node?.node_id ?? null },
    ...{ node_instance_id: node?.node_instance_id ?? null, allocation_id: null, correlation_id: null },
    ...{ workflow_id: null, reason: 'forced', forced_by: null, seen: 'unproven', cost_per_hour: null },
  };
  await stage.db.transaction((tx) => leaveResidue(tx, [left], { layer: 'operator' }, stage.clock));
  proven.add(node?.node_instance_id ?? '');
  // It enrolled again: its leftovers are still there.
  await stage.db.query(`update nodes set node_instance_id = 'inst_anew'`);
  const pass = replica();
  await pass();
  expect(await ledger()).toMatchObject([{ status: 'open', seen: expect.stringContaining('only its agent') }]);
  await stage.db.query(`update nodes set status = 'retired'`);
  await pass();
  expect(await ledger()).toMatchObject([{ status: 'gone', proof: { kind: 'revoked' } }]);
});

test('residue without an instance is gone when its driver no longer lists it', async () => {
  const pass = replica();
  listed = [thing(null, 'address/1')];
  for (let i = 0; i < 3; i++) await pass();
  expect(await ledger()).toMatchObject([{ resource: 'address/1', node_instance_id: null, status: 'open' }]);
  listed = [];
  await pass();
  expect(await ledger()).toMatchObject([{ status: 'gone', seen: expect.stringContaining('nothing of that name') }]);
});

test('a driver that cannot list hides no other, and the sweep reports it', async () => {
  const services = servicesOf();
  const deaf = simulatedDriver({
    name: 'deaf',
    list_owned: async () => {
      throw new Error('the provider is away');
    },
  });
  const both = { ...services, drivers: new Map([['deaf', deaf], ...services.drivers]) };
  const { run } = orphans(both);
  listed = [thing('inst_a')];
  for (const seconds of [0, every_seconds])
    await expect(run(stage.at(seconds))).rejects.toThrow('the provider is away');
  expect(await ledger()).toHaveLength(1);
});
