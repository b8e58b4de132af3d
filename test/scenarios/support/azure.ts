/** Clusters on a fake Azure that the test controls, created by the real driver. */
import { systemClock } from '../../../src/base/clock.ts';
import type { Progress } from '../../../src/contract/progress.ts';
import { createAksDriver } from '../../../src/drivers/aks/aks-driver.ts';
import type { AksSpec } from '../../../src/drivers/aks/spec.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { allocate } from '../../support/allocations.ts';
import type { Arm } from '../../support/arm/arm.ts';
import { allocationOf } from './machines.ts';
import type { ScenarioContext } from './scenario.ts';

/** The phases of a cluster, in the order of its steps. */
export const phases = [
  'creating_cluster',
  'ensuring_resource_group',
  'arm_create_or_update',
  'ensuring_rbac',
  'completed',
] as const;
export type Phase = (typeof phases)[number];
export const stepOf = (phase: Phase) => phases.indexOf(phase) + 1;

export const azureRole = {
  role_definition_id: '7f951dda-4ed3-4680-a7ca-43fe172d538d',
  principal_id: '11111111-2222-4333-8444-555555555555',
  principal_type: 'ServicePrincipal' as const,
};

export const clusterSpec = ({ subscription_id }: Arm): AksSpec => ({
  subscription_id,
  location: 'westeurope',
  pools: [
    { name: 'systempool', mode: 'System', vm_size: 'Standard_D2s_v5', count: 1 },
    { name: 'blastpool', mode: 'User', vm_size: 'Standard_D8s_v5', count: 10 },
  ],
  roles: [azureRole],
});

export const aksDriver = (arm: Arm): Driver =>
  createAksDriver({
    ...{ endpoint: arm.url, ca: arm.ca, environment: arm.environment(), clock: systemClock, poll_seconds: 0.1 },
    allow_roles_anywhere: false,
    subscriptionsInUse: async () => [arm.subscription_id],
  });

/** A server whose `aks` driver uses this fake ARM. `breakDriver` replaces parts of the driver. */
export const onAzure = (
  arm: () => Arm,
  breakDriver: (driver: Driver) => Driver = (driver) => driver,
): Required<Pick<Composition, 'drivers'>> => ({
  drivers: (built) => new Map([...built, ['aks', breakDriver(aksDriver(arm()))]]),
});

export async function allocateCluster(
  { client }: Pick<ScenarioContext, 'client'>,
  arm: Arm,
  pool = 'clusters',
): Promise<string> {
  await client.call('pool-put', { params: { pool }, body: { driver: 'aks', spec: clusterSpec(arm) } });
  return allocate(client, pool);
}

export const waitForProgress = (
  context: Pick<ScenarioContext, 'client' | 'waitFor'>,
  id: string,
  what: string,
  fits: (progress: Progress) => boolean,
): Promise<Progress> =>
  context.waitFor(what, async () => {
    const { progress } = await allocationOf(context as ScenarioContext, id);
    return progress && fits(progress) ? progress : undefined;
  });

export const waitForPhase = (context: Pick<ScenarioContext, 'client' | 'waitFor'>, id: string, phase: Phase) =>
  waitForProgress(context, id, `progress to be in ${phase}`, (progress) => progress.phase === phase);
