/**
 * The orphans sweep on a real store with a scripted driver: which resources it records as residue,
 * and when residue is gone.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Driver, OwnedResource } from '../../drivers/driver.ts';
import { defaultOrphanSettings } from '../../lifecycle/findings/residue.ts';
import { leaveResidue, listResidue, settleResidue } from '../../store/rows/residue.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { orphans } from './orphans.ts';

const { every_seconds } = defaultOrphanSettings;

let fixture: RuleFixture;
let listed: OwnedResource[];
/** Instances that the driver proves gone. */
let provenInstances: Set<string>;
let driver: Partial<Driver>;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  listed = [];
  provenInstances = new Set();
  driver = {};
  await fixture.declarePool('yard');
});
afterEach(() => fixture.close());

const resourceOf = (instance: string | null, resource = `vm/${instance}`): OwnedResource => ({
  kind: 'vm',
  resource,
  node_id: 'node_1' as NodeId,
  node_instance_id: instance as NodeInstanceId | null,
});

const servicesOf = (): SweepServices => ({
  ...fixture.services,
  installation: { installation_id: 'here' } as SweepServices['installation'],
  drivers: new Map([
    [
      'yard',
      simulatedDriver({
        name: 'yard',
        list_owned: async () => listed,
        prove: async ({ node_instance_id }, { kind, nonce }) =>
          provenInstances.has(node_instance_id)
            ? { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the yard', seen: 'nothing' }] } }
            : { outcome: 'failed', owner_layer: 'provider', code: 'there', message: 'still there', retryable: true },
        ...driver,
      }),
    ],
  ]),
});

/** Returns a function that runs one pass of a new replica's sweep. */
function replica() {
  const { run } = orphans(servicesOf());
  return async () => {
    await fixture.clock.advance(every_seconds * 1000);
    return run(fixture.at((fixture.clock.nowMs() - fixture.start.getTime()) / 1000));
  };
}

const readResidue = async () => (await listResidue(fixture.db, { limit: 100 })).items;
const countFacts = async (kind: string) =>
  (await fixture.db.query('select 1 from evidence where kind = $1', [kind])).length;

test('records residue seen twice without an owner, once for all replicas', async () => {
  const [one, another] = [replica(), replica()];
  listed = [{ ...resourceOf('inst_unknown'), cost_per_hour: 2.5 }];
  await one();
  await another();
  expect(await readResidue()).toEqual([]);
  await one();
  await another();
  await one();
  expect(await readResidue()).toMatchObject([
    { why: 'orphan', status: 'open', resource: 'vm/inst_unknown', cost_per_hour: 2.5, pool: null, seen: 'still there' },
  ]);
  expect(await countFacts('residue.found')).toBe(1);
});

test('two passes within a second count as one', async () => {
  const { run } = orphans(servicesOf());
  listed = [resourceOf('inst_unknown')];
  await run(fixture.at(0));
  await run(fixture.at(1));
  expect(await readResidue()).toEqual([]);
});

test('the current instance of a live node is owned; leftovers of a retired node are not', async () => {
  const [live] = await fixture.addNodes({ pool: 'yard', count: 1 });
  const [retired] = await fixture.addNodes({ pool: 'yard', count: 1, status: 'retired' });
  const rows = await fixture.readNodes([live as NodeId, retired as NodeId]);
  listed = rows.map((row) => resourceOf(row.node_instance_id));
  const pass = replica();
  for (let i = 0; i < 3; i++) await pass();
  expect(await readResidue()).toMatchObject([
    {
      node_instance_id: rows.find((row) => row.status === 'retired')?.node_instance_id,
      pool: 'yard',
      reason: 'its machine was retired',
    },
  ]);
});

test('a resource is an orphan only after two passes in a row without an owner', async () => {
  const pass = replica();
  listed = [resourceOf('inst_yard_1')];
  await pass();
  await fixture.addNodes({ pool: 'yard', count: 1 });
  for (let i = 0; i < 3; i++) await pass();
  await fixture.db.query(`update nodes set status = 'retired'`);
  await pass();
  listed = [];
  for (let i = 0; i < 3; i++) await pass();
  listed = [resourceOf('inst_yard_1')];
  await pass();
  expect(await readResidue()).toEqual([]);
});

test('residue stays open until the driver proves it gone, and each proof is recorded once', async () => {
  const pass = replica();
  listed = [resourceOf('inst_a'), resourceOf('inst_a', 'disk/a'), resourceOf('inst_b')];
  for (let i = 0; i < 4; i++) await pass();
  expect(await readResidue()).toHaveLength(3);
  // A resource that is missing from the list is not proven gone.
  listed = [];
  await pass();
  expect((await readResidue()).map(({ status }) => status)).toEqual(['open', 'open', 'open']);
  provenInstances.add('inst_a');
  await pass();
  const after = await readResidue();
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
  expect(await countFacts('residue.gone')).toBe(2);
  // Each resource is recorded as verified once, not in every pass.
  expect(await countFacts('residue.verified')).toBe(3);
});

test('does not report adopted residue again, and reopens residue that comes back', async () => {
  const pass = replica();
  listed = [resourceOf('inst_a'), resourceOf('inst_b')];
  for (let i = 0; i < 2; i++) await pass();
  const [b, a] = await readResidue();
  const source = { layer: 'operator' } as const;
  await fixture.db.transaction(async (tx) => {
    await settleResidue(
      tx,
      { residue_id: a?.residue_id ?? '' },
      { status: 'adopted', reason: 'mine' },
      source,
      fixture.at(1),
    );
    await settleResidue(tx, { residue_id: b?.residue_id ?? '' }, { status: 'gone' }, source, fixture.at(1));
  });
  for (let i = 0; i < 3; i++) await pass();
  const open = (await readResidue()).filter(({ status }) => status === 'open');
  expect(open.map(({ resource }) => resource)).toEqual([b?.resource]);
});

const residueOn = (host: string, instance: string | null, resource = `vm/${instance}`) => ({
  ...{ driver: 'yard', pool: 'yard', host, kind: 'vm', resource, node_id: null, reason: 'forced' },
  ...{ node_instance_id: instance as NodeInstanceId | null, allocation_id: null, correlation_id: null },
  ...{ workflow_id: null, forced_by: null, seen: 'unproven', cost_per_hour: null },
});

test('a resource that a host-bound driver lists does not count as seen on another host', async () => {
  driver = { host_bound: true, host_id: 'this-host' };
  const residue = ['this-host', 'other-host'].map((host) => residueOn(host, null, 'process/7'));
  await fixture.db.transaction((tx) => leaveResidue(tx, residue, { layer: 'operator' }, fixture.clock));
  listed = [resourceOf(null, 'process/7')];
  await replica()();
  const seen = Object.fromEntries((await readResidue()).map((each) => [each.host, each.seen_at !== null]));
  expect(seen).toEqual({ 'this-host': true, 'other-host': false });
});

test('a host-bound driver does not verify residue on another host', async () => {
  driver = { host_bound: true, host_id: 'this-host' };
  await fixture.db.transaction((tx) =>
    leaveResidue(
      tx,
      [residueOn('this-host', 'inst_here'), residueOn('other-host', 'inst_there')],
      { layer: 'operator' },
      fixture.clock,
    ),
  );
  provenInstances = new Set(['inst_here', 'inst_there']);
  await replica()();
  const status = Object.fromEntries((await readResidue()).map((each) => [each.host, each.status]));
  expect(status).toEqual({ 'this-host': 'gone', 'other-host': 'open' });
});

test('a revoked credential does not prove a permanent machine clean', async () => {
  driver = { launches: false, final_proof: 'revoked' };
  const [node] = await fixture.readNodes(await fixture.addNodes({ pool: 'yard', count: 1 }));
  const residue = {
    ...{ driver: 'yard', pool: 'yard', host: null, kind: 'machine', resource: 'm', node_id: node?.node_id ?? null },
    ...{ node_instance_id: node?.node_instance_id ?? null, allocation_id: null, correlation_id: null },
    ...{ workflow_id: null, reason: 'forced', forced_by: null, seen: 'unproven', cost_per_hour: null },
  };
  await fixture.db.transaction((tx) => leaveResidue(tx, [residue], { layer: 'operator' }, fixture.clock));
  provenInstances.add(node?.node_instance_id ?? '');
  // The machine enrolled again, so the leftovers are still on it.
  await fixture.db.query(`update nodes set node_instance_id = 'inst_anew'`);
  const pass = replica();
  await pass();
  expect(await readResidue()).toMatchObject([{ status: 'open', seen: expect.stringContaining('only its agent') }]);
  await fixture.db.query(`update nodes set status = 'retired'`);
  await pass();
  expect(await readResidue()).toMatchObject([{ status: 'gone', proof: { kind: 'revoked' } }]);
});

test('residue without an instance is gone when its driver no longer lists it', async () => {
  const pass = replica();
  listed = [resourceOf(null, 'address/1')];
  for (let i = 0; i < 3; i++) await pass();
  expect(await readResidue()).toMatchObject([{ resource: 'address/1', node_instance_id: null, status: 'open' }]);
  listed = [];
  await pass();
  expect(await readResidue()).toMatchObject([
    { status: 'gone', seen: expect.stringContaining('nothing of that name') },
  ]);
});

test('a driver that cannot list does not stop the others, and the sweep fails with its error', async () => {
  const services = servicesOf();
  const failing = simulatedDriver({
    name: 'failing',
    list_owned: async () => {
      throw new Error('the provider is away');
    },
  });
  const withBoth = { ...services, drivers: new Map([['failing', failing], ...services.drivers]) };
  const { run } = orphans(withBoth);
  listed = [resourceOf('inst_a')];
  for (const seconds of [0, every_seconds])
    await expect(run(fixture.at(seconds))).rejects.toThrow('the provider is away');
  expect(await readResidue()).toHaveLength(1);
});
