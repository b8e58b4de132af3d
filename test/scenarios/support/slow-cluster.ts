/**
 * A simulated provider that creates clusters in phases, with pools that come up one by one. The
 * test sets its answers. The operation, store, API and stream around it are real.
 */
import type { Driver, DriverOutcome, PlannedStep } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { allocationOf } from './machines.ts';
import type { ScenarioContext } from './scenario.ts';
import { simulatedDriver } from './simulated-driver.ts';

export const phases: PlannedStep[] = [
  { phase: 'creating_cluster', label: 'Preparing', usual_seconds: 1, owner_layer: 'provider' },
  { phase: 'ensuring_resource_group', label: 'Making the resource group', usual_seconds: 2, owner_layer: 'provider' },
  { phase: 'arm_create_or_update', label: 'Creating the cluster', usual_seconds: 20, owner_layer: 'provider' },
  { phase: 'ensuring_rbac', label: 'Assigning roles', usual_seconds: 2, owner_layer: 'provider' },
];

/**
 * One step before the driver's phases (finding a machine) and two after them (registration and
 * start).
 */
export const totalSteps = 1 + phases.length + 2;
export const stepOf = (phase: string) => 2 + phases.findIndex((each) => each.phase === phase);

const part = (name: string, state: string, tone: 'ok' | 'busy', count: number) => ({
  ...{ name, kind: 'pool', state, tone },
  count,
});
export const pools = [part('systempool', 'Succeeded', 'ok', 1), part('blastpool', 'Creating', 'busy', 10)];

export interface SlowCluster {
  /** The answer to `ensure`. */
  answer: DriverOutcome;
  /** The state that the provider shows. */
  observed: string;
  driver: Driver;
}

export const waitOutcome = (phase: string | undefined, message: string, more: object = {}): DriverOutcome => ({
  outcome: 'wait',
  retry_seconds: 0.1,
  message,
  ...(phase && { phase }),
  ...more,
});

export function slowCluster(plan: PlannedStep[] = phases): SlowCluster {
  const cluster: SlowCluster = {
    answer: waitOutcome(plan[0]?.phase, 'not visible at the provider yet'),
    observed: 'absent',
    driver: simulatedDriver({
      plan: () => plan,
      ensure: async () => cluster.answer,
      inspect: async () => ({ state: cluster.observed, present: true, ready: false, detail: null }),
    }),
  };
  return cluster;
}

/**
 * Registers a cluster as the driver `simulated`. Each server gets the result of one call of `make`,
 * which is also passed to `keep`.
 */
export const withCluster = (
  make: () => SlowCluster,
  keep: (cluster: SlowCluster) => void,
): Required<Pick<Composition, 'drivers'>> => ({
  drivers: (built) => {
    const cluster = make();
    keep(cluster);
    return new Map([...built, ['simulated', cluster.driver]]);
  },
});

export async function allocateCluster(context: ScenarioContext, pool = 'clusters'): Promise<string> {
  await context.client.call('pool-put', { params: { pool }, body: { driver: 'simulated' } });
  const { allocation } = await context.client.call('allocation-create', { body: { pool } });
  return allocation.allocation_id;
}

export const progressOf = async (context: ScenarioContext, id: string) => (await allocationOf(context, id)).progress;
