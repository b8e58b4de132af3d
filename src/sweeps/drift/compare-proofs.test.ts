/**
 * Quarantined nodes whose machine is proven gone are found and retired by that proof, and never
 * retired wrongly.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { newCorrelationId } from '../../base/ids.ts';
import { defaultDriftSettings } from '../../lifecycle/findings/findings.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { acceptFinding, repairFinding } from '../../operations/actions/findings.ts';
import { rebuildNodes } from '../../store/history/projection.ts';
import { verifySlice } from '../../store/history/verify-rows.ts';
import type { Database } from '../../store/pg/database.ts';
import type { FindingRow } from '../../store/rows/findings.ts';
import type { NodeRow } from '../../store/rows/nodes.ts';
import { type Fleet, nodeNow } from '../../store/testing/fleet.ts';
import type { SweepServices } from '../runner/services.ts';
import { type DriftWorld, driftWorld } from '../testing/drift-fixture.ts';
import { drift } from './drift.ts';

const { every_seconds } = defaultDriftSettings;

let world: DriftWorld;
let db: Database;
let fleet: Fleet;
let services: SweepServices;

beforeEach(async () => {
  world = await driftWorld(await testDatabase());
  ({ db, fleet, services } = world);
});
afterEach(() => world.close());

const findings = () => db.query<FindingRow>('select * from findings order by finding_id');
const statusOf = async ({ node_id }: NodeRow) => (await nodeNow(db, node_id)).status;
const unretired = async () =>
  (await verifySlice(db, 'nodes', { cursor: '', limit: 100 })).unretired.map(({ node_id }) => node_id);

const passes = async (count: number, sweep = drift(services)) => {
  for (let each = 0; each < count; each++) {
    await fleet.clock.advance(every_seconds * 1000);
    await sweep.run(fleet.now());
  }
};

const caller = {
  actor: { kind: 'token', id: 'tok_1', name: 'ann' } as const,
  visibility: wholeFleet,
  correlation_id: newCorrelationId(),
};
const request = { reason: 'it is gone' };

const operationOn = (node: NodeRow, kind: string, status: string) =>
  db.query(
    `insert into operations (workflow_id, kind, revision, node_id, correlation_id, status, created_at)
     values ('wf_' || $1 || $2, $2, 1, $1, $4, $3, now())`,
    [node.node_id, kind, status, newCorrelationId()],
  );

const prove = ({ node_id, node_instance_id }: NodeRow, kind = 'absent', workflow_id: string | null = null) =>
  db.query(
    `insert into evidence (at, layer, kind, summary, node_id, node_instance_id, workflow_id, origin)
     values ($3, 'provider', 'proof.' || $4, 'nothing is there', $1, $2, $5, 'internal')`,
    [node_id, node_instance_id, fleet.now(), kind, workflow_id],
  );

/**
 * The state an earlier version left: quarantined during its release, with the allocation released
 * by the proof.
 */
async function ghost({ kind = 'absent' } = {}): Promise<NodeRow> {
  const node = await fleet.node('ready');
  const { allocation_id } = await fleet.allocation('active', node);
  await fleet.moveAllocation({ allocation_id, to: 'releasing', by: 'release', reason: 'asked for' });
  await fleet.move({ node_id: node.node_id, to: 'cleaning', by: 'release', reason: 'asked for' });
  await fleet.move({ node_id: node.node_id, to: 'quarantined', by: 'quarantine', reason: 'suspicious' });
  await operationOn(node, 'allocation-release', 'succeeded');
  await prove(node, kind, `wf_${node.node_id}allocation-release`);
  await fleet.moveAllocation({ allocation_id, to: 'released', by: 'proof', reason: 'its machine is proven gone' });
  return node;
}

describe.each(['absent', 'revoked'])('a ghost of an earlier version, proven %s', (kind) => {
  test('is reported, and retired by its proof in the second pass', async () => {
    const node = await ghost({ kind });
    expect(await unretired()).toEqual([node.node_id]);
    const sweep = drift(services);
    await passes(1, sweep);
    expect(await findings()).toMatchObject([{ what: 'proven_gone', subject: node.node_id, status: 'seen' }]);
    expect(await statusOf(node)).toBe('quarantined');
    await passes(1, sweep);
    expect(await findings()).toMatchObject([{ status: 'repaired', theirs: { proof: kind } }]);
    expect(await statusOf(node)).toBe('retired');
    expect(await unretired()).toEqual([]);
    expect(await rebuildNodes(db, [node.node_id])).toMatchObject([{ status: 'retired' }]);
    const facts = await db.query<{ kind: string }>(
      `select kind from evidence where node_id = $1 and (kind like 'finding.%' or kind = 'node.retired') order by xid, seq`,
      [node.node_id],
    );
    expect(facts.map(({ kind }) => kind)).toEqual(['finding.opened', 'node.retired', 'finding.repaired']);
  });
});

test('is found by its proof even if its allocation ended otherwise', async () => {
  const node = await fleet.node('quarantined');
  await prove(node);
  await passes(2);
  expect(await statusOf(node)).toBe('retired');
});

test('a proof by the machine itself, or about another instance, retires no node', async () => {
  const node = await fleet.node('quarantined');
  await prove({ ...node, node_instance_id: 'inst_former' as NodeRow['node_instance_id'] });
  await db.query(
    `insert into evidence (at, layer, kind, summary, node_id, node_instance_id, origin) values (now(), 'provider', 'proof.absent', 'I am gone', $1, $2, 'outside')`,
    [node.node_id, node.node_instance_id],
  );
  // A credential revoked without a release proves nothing about the machine.
  await prove(node, 'revoked');
  await passes(3);
  expect(await findings()).toEqual([]);
  expect(await unretired()).toEqual([]);
  expect(await statusOf(node)).toBe('quarantined');
});

test.each(['node-re-enroll', 'node-retire', 'node-reimage'])('leaves a node to a running %s', async (kind) => {
  const node = await ghost();
  await operationOn(node, kind, 'running');
  await passes(3);
  expect(await findings()).toEqual([]);
  expect(await statusOf(node)).toBe('quarantined');
});

test('leaves a node to its release if a retry is due', async () => {
  const node = await fleet.node('quarantined');
  await fleet.allocation('release_failed', node);
  await prove(node);
  await passes(3);
  expect(await findings()).toEqual([]);
});

describe('a machine that its provider shows again after the proof', () => {
  const seenAgain = async () => {
    const node = await ghost();
    await db.query(`update nodes set observed_state = 'running', observed_at = $2 where node_id = $1`, [
      node.node_id,
      fleet.now(),
    ]);
    await passes(3);
    const [found] = await findings();
    return { node, finding_id: found?.finding_id ?? '' };
  };

  test('stays, with an open finding', async () => {
    const { node } = await seenAgain();
    expect(await findings()).toMatchObject([
      { what: 'proven_gone', status: 'open', theirs: { proof: 'absent', observed_state: 'running' } },
    ]);
    expect(await statusOf(node)).toBe('quarantined');
  });

  test('is retired once the provider no longer shows it', async () => {
    const { node } = await seenAgain();
    await db.query(`update nodes set observed_state = 'absent', observed_at = $2 where node_id = $1`, [
      node.node_id,
      fleet.now(),
    ]);
    await passes(1);
    expect(await findings()).toMatchObject([{ what: 'proven_gone', status: 'repaired' }]);
    expect(await statusOf(node)).toBe('retired');
  });

  test('is torn down again when a person repairs it', async () => {
    const { node, finding_id } = await seenAgain();
    const { says } = await repairFinding(services, finding_id, { ...request, dry_run: true }, caller);
    expect(says).toBe('the machine is taken down again, with proof, and the node is retired');
    expect((await repairFinding(services, finding_id, request, caller)).workflow_id).toBeDefined();
    expect(await statusOf(node)).toBe('cleaning');
  });

  test('is not reported again once accepted', async () => {
    const { finding_id } = await seenAgain();
    await acceptFinding(services, finding_id, request, caller);
    await passes(2);
    expect(await findings()).toMatchObject([{ status: 'accepted', closed_at: null }]);
  });
});

test('a finding closes when an operation takes the node over', async () => {
  const node = await ghost();
  const sweep = drift(services);
  await passes(1, sweep);
  await operationOn(node, 'node-re-enroll', 'running');
  await passes(1, sweep);
  expect(await findings()).toEqual([]);
});
