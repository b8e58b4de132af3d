/** A cause found after a rule gave a machine up by time alone is added to its verdict. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { AllocationRow } from '../../store/rows/allocations.ts';
import type { SweepServices } from '../runner/services.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { absence } from './absence.ts';

const cause = 'setup exited with code 1: libcuda.so.1: cannot open shared object file';

let stage: Stage;
let services: SweepServices;
let looked: number;
let state: string;

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  looked = 0;
  state = 'exited';
  const driver = simulatedDriver({
    observe: async () => {
      looked++;
      return { state, present: true, ready: false, detail: null };
    },
    diagnose: async () => ({ summary: cause, code: 'setup_failed', certain: true, attachments: [] }),
  });
  services = {
    ...stage.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
  await stage.pool('fleet', { driver: driver.name });
});
afterEach(() => stage.close());

async function givenUp(rule: string): Promise<NodeId> {
  const deadline_at = stage.at(3600);
  const [id = '' as NodeId] = await stage.nodes({ pool: 'fleet', count: 1, status: 'failed', deadline_at });
  const verdict = { rule, reason: 'launched but never registered', at: stage.start.toISOString() };
  await stage.db.query('update nodes set verdict = $2, registered_at = null where node_id = $1', [id, verdict]);
  await stage.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, verdict, reason, created_at)
     values ('alloc_1', 'fleet', $1, 't', 'failed', $3, 'c', $2, 'launched but never registered', $3)`,
    [id, verdict, stage.start],
  );
  return id;
}

const allocation = async () =>
  (await stage.db.query<AllocationRow>("select * from allocations where allocation_id = 'alloc_1'"))[0];
const factsOf = (kind: string) => stage.db.query('select 1 from evidence where kind = $1', [kind]);

test('a cause found after the verdict makes it certain and comes first, for the machine and its allocation', async () => {
  const id = await givenUp('provision-deadline');
  const sweep = absence(services);
  await sweep.run(stage.at(1));
  const verdict = {
    rule: 'provision-deadline',
    certain: true,
    reason: `${cause}; found out after it was given up: launched but never registered`,
  };
  expect(await stage.rows([id])).toMatchObject([{ status: 'failed', observed_state: 'exited', verdict }]);
  expect(await allocation()).toMatchObject({ status: 'failed', verdict, reason: verdict.reason });
  await stage.clock.advance(60_000);
  await sweep.run(stage.at(61));
  expect(looked, 'what is certain is not looked for again').toBe(1);
  expect(await factsOf('node.explained')).toHaveLength(1);
  expect(await factsOf('allocation.explained')).toHaveLength(1);
});

test.each([
  ['a machine that runs', 'provision-deadline', 'running'],
  ['a verdict that knows its cause', 'prerequisite-missing', 'exited'],
])('leaves %s as it stands', async (_, rule, shown) => {
  state = shown;
  const id = await givenUp(rule);
  await absence(services).run(stage.at(1));
  const [node] = await stage.rows([id]);
  expect(node?.verdict).toMatchObject({ rule, reason: 'launched but never registered' });
  expect(node?.verdict?.certain).toBeUndefined();
});
