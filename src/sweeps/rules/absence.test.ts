/**
 * Tests that a cause joins the verdict if it is found after the machine failed by a deadline.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { AllocationRow } from '../../store/rows/allocations.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { absence } from './absence.ts';

const cause = 'setup exited with code 1: libcuda.so.1: cannot open shared object file';

let fixture: RuleFixture;
let services: SweepServices;
let inspectCalls: number;
let state: string;
/** How many of the next inspections fail. */
let inspectFailures: number;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  inspectCalls = 0;
  state = 'exited';
  inspectFailures = 0;
  const driver = simulatedDriver({
    inspect: async () => {
      inspectCalls++;
      if (inspectFailures-- > 0) throw new Error('the provider does not answer');
      return { state, present: true, ready: false, detail: null };
    },
    diagnose: async () => ({ summary: cause, code: 'setup_failed', certain: true, attachments: [] }),
  });
  services = {
    ...fixture.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
  await fixture.declarePool('fleet', { driver: driver.name });
});
afterEach(() => fixture.close());

async function addFailedNode(rule: string): Promise<NodeId> {
  const deadline_at = fixture.at(3600);
  const [id = '' as NodeId] = await fixture.addNodes({ pool: 'fleet', count: 1, status: 'failed', deadline_at });
  const verdict = { rule, reason: 'launched but never registered', at: fixture.start.toISOString() };
  await fixture.db.query('update nodes set verdict = $2, registered_at = null where node_id = $1', [id, verdict]);
  await fixture.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, verdict, reason, created_at)
     values ('alloc_1', 'fleet', $1, 't', 'failed', $3, 'c', $2, 'launched but never registered', $3)`,
    [id, verdict, fixture.start],
  );
  return id;
}

const readAllocation = async () =>
  (await fixture.db.query<AllocationRow>("select * from allocations where allocation_id = 'alloc_1'"))[0];
const readFacts = (kind: string) => fixture.db.query('select 1 from evidence where kind = $1', [kind]);

test('a cause found after the verdict makes the verdict certain and leads its reason, for node and allocation', async () => {
  const id = await addFailedNode('provision-deadline');
  const sweep = absence(services);
  await sweep.run(fixture.at(1));
  const verdict = {
    rule: 'provision-deadline',
    certain: true,
    reason: `${cause}; found out after it was given up: launched but never registered`,
  };
  expect(await fixture.readNodes([id])).toMatchObject([{ status: 'failed', observed_state: 'exited', verdict }]);
  expect(await readAllocation()).toMatchObject({ status: 'failed', verdict, reason: verdict.reason });
  await fixture.clock.advance(60_000);
  await sweep.run(fixture.at(61));
  expect(inspectCalls, 'a machine with a certain cause is not inspected again').toBe(1);
  expect(await readFacts('node.explained')).toHaveLength(1);
  expect(await readFacts('allocation.explained')).toHaveLength(1);
});

test.each([
  ['of a machine that still runs', 'provision-deadline', 'running'],
  ['of a rule that names its cause', 'prerequisite-missing', 'exited'],
])('does not change the verdict %s', async (_, rule, observedState) => {
  state = observedState;
  const id = await addFailedNode(rule);
  await absence(services).run(fixture.at(1));
  const [node] = await fixture.readNodes([id]);
  expect(node?.verdict).toMatchObject({ rule, reason: 'launched but never registered' });
  expect(node?.verdict?.certain).toBeUndefined();
});

test('inspects the other machines although the provider fails for one', async () => {
  await fixture.addNodes({ pool: 'fleet', count: 1, status: 'offline', deadline_at: fixture.at(3600) });
  await addFailedNode('provision-deadline');
  inspectFailures = 1;
  await expect(absence(services).run(fixture.at(1))).rejects.toThrow('the provider does not answer');
  expect(inspectCalls).toBe(2);
  expect(await readAllocation()).toMatchObject({ verdict: { certain: true } });
});
