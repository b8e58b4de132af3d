/**
 * Tests that requests on residue delete no machine in use, and run one operation per entry at a
 * time.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { leaveResidue, residueRow } from '../../store/rows/residue.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import type { OperationServices } from '../runtime/services.ts';
import { adoptResidue, requestResidueDelete, requestResidueVerify } from './residue-requests.ts';

let fixture: RuleFixture;
let services: OperationServices;
let node_id: NodeId;
const caller = {
  actor: { kind: 'token', id: 'tok_1', name: 'ada' },
  visibility: wholeFleet,
  correlation_id: 'c' as CorrelationId,
  reason: 'because',
};

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
  [node_id] = (await fixture.addNodes({ pool: 'p', count: 1 })) as [NodeId];
  services = { ...fixture.services, drivers: new Map([['yard', simulatedDriver({ name: 'yard' })]]) };
});
afterEach(() => fixture.close());

async function addResidue(
  overrides: { driver?: string; node_instance_id?: NodeInstanceId | null } = {},
): Promise<string> {
  const entry = {
    ...{ driver: 'yard', pool: 'p', host: null, kind: 'vm', resource: 'vm/1', node_id, reason: 'forced' },
    ...{ node_instance_id: 'inst_p_1' as NodeInstanceId, allocation_id: null, correlation_id: null, workflow_id: null },
    ...{ forced_by: caller.actor, seen: 'still there', cost_per_hour: null },
    ...overrides,
  };
  const [row] = await fixture.db.transaction((tx) => leaveResidue(tx, [entry], { layer: 'operator' }, fixture.clock));
  return row?.residue_id ?? '';
}
const setNodeStatus = (status: string) => fixture.db.query('update nodes set status = $1', [status]);
const refusal = (detail: string) => ({ code: 'action_illegal', message: expect.stringContaining(detail) });

test('deletes residue of the current instance only if the node of that instance is quarantined', async () => {
  const id = await addResidue();
  await setNodeStatus('cleaning');
  await expect(requestResidueDelete(services, id, caller)).rejects.toMatchObject(
    refusal('is being torn down, and this resource with it'),
  );
  for (const status of ['ready', 'starting']) {
    await setNodeStatus(status);
    await expect(requestResidueDelete(services, id, caller)).rejects.toMatchObject(refusal(`which is ${status}`));
  }
  await setNodeStatus('quarantined');
  expect(await requestResidueDelete(services, id, caller)).toMatchObject({ residue_id: id });
  const other = await addResidue({ node_instance_id: 'inst_of_no_node' as NodeInstanceId });
  await setNodeStatus('ready');
  expect(await requestResidueDelete(services, other, caller)).toMatchObject({ residue_id: other });
});

test('refuses to delete an entry without an instance, or of a driver that this server lacks', async () => {
  await setNodeStatus('quarantined');
  const untagged = await addResidue({ node_instance_id: null });
  await expect(requestResidueDelete(services, untagged, caller)).rejects.toMatchObject(refusal('names no instance'));
  const foreign = await addResidue({ driver: 'elsewhere' });
  await expect(requestResidueDelete(services, foreign, caller)).rejects.toMatchObject(refusal('no driver elsewhere'));
});

test('refuses to delete an external machine until its node is retired', async () => {
  services = { ...services, drivers: new Map([['yard', simulatedDriver({ name: 'yard', launches: false })]]) };
  const id = await addResidue();
  await setNodeStatus('quarantined');
  await expect(requestResidueDelete(services, id, caller)).rejects.toMatchObject(refusal('it may not destroy it'));
  await setNodeStatus('retired');
  expect(await requestResidueDelete(services, id, caller)).toMatchObject({ residue_id: id });
});

test('a repeated request returns the same operation, and other requests are refused meanwhile', async () => {
  await setNodeStatus('quarantined');
  const id = await addResidue();
  const { workflow_id } = await requestResidueDelete(services, id, caller);
  expect((await requestResidueDelete(services, id, caller)).workflow_id).toBe(workflow_id);
  await expect(adoptResidue(services, id, caller)).rejects.toMatchObject(refusal('residue-delete works on the entry'));
  await expect(requestResidueVerify(services, id, caller)).rejects.toMatchObject(
    refusal('residue-delete works on the entry'),
  );
  expect(await fixture.db.query(`select 1 from operations where kind like 'residue-%'`)).toHaveLength(1);
});

test('an adopted entry is closed with the person and the reason, and refuses further requests', async () => {
  const id = await addResidue();
  await adoptResidue(services, id, caller);
  expect(await residueRow(fixture.db, id)).toMatchObject({
    ...{ status: 'adopted', settled_by: caller.actor, settled_reason: 'because' },
  });
  for (const ask of [adoptResidue, requestResidueVerify, requestResidueDelete])
    await expect(ask(services, id, caller)).rejects.toMatchObject(refusal('The entry is adopted since'));
  await expect(adoptResidue(services, 'res_none', caller)).rejects.toMatchObject({ code: 'residue_not_found' });
});

test('a dry run predicts the effect or refuses, and changes nothing', async () => {
  const id = await addResidue();
  const dryRun = { ...caller, dry_run: true };
  const before = await residueRow(fixture.db, id);
  await setNodeStatus('ready');
  await expect(requestResidueDelete(services, id, dryRun)).rejects.toMatchObject(refusal('which is ready'));
  await setNodeStatus('quarantined');
  for (const [request, says] of [
    [requestResidueVerify, 'is asked whether vm vm/1 is still there'],
    [adoptResidue, 'ada takes over vm vm/1'],
    [requestResidueDelete, 'vm vm/1 is destroyed'],
  ] as const)
    expect(await request(services, id, dryRun)).toMatchObject({
      workflow_id: null,
      says: expect.stringContaining(says),
    });
  expect(await residueRow(fixture.db, id)).toEqual(before);
  expect(await fixture.db.query(`select 1 from operations where kind like 'residue-%'`)).toEqual([]);
});
