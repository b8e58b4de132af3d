/**
 * The fixture of the aks driver's conformance tests. It runs the driver against a fake Azure and
 * gives tests direct access to the resources there.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../src/base/ids.ts';
import { type AksDriverOptions, createAksDriver } from '../../../src/drivers/aks/aks-driver.ts';
import { createCredential } from '../../../src/drivers/aks/azure/credential.ts';
import { clusterName } from '../../../src/drivers/aks/place.ts';
import type { AksSpec } from '../../../src/drivers/aks/spec.ts';
import { areInstanceTags, tagsOf } from '../../../src/drivers/aks/tags.ts';
import type { DriverFixture } from '../../../src/drivers/conformance.ts';
import type { DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { until } from '../until.ts';
import type { Arm, ArmResource } from './arm.ts';
import { refusals } from './refusal.ts';

export interface AksFixture extends DriverFixture {
  arm: Arm;
  options: AksDriverOptions;
  installation_id: string;
  withSpec(spec: Partial<AksSpec>): EnsureTarget;
  resourcesOf(target: DriverTarget): ArmResource[];
}

export const usualSpec = (subscription_id: string): AksSpec => ({
  subscription_id,
  location: 'westeurope',
  pools: [
    { name: 'systempool', mode: 'System', vm_size: 'Standard_D4s_v5', count: 1 },
    { name: 'blastpool', mode: 'User', vm_size: 'Standard_D8s_v5', count: 10 },
  ],
  roles: [{ role_definition_id: randomUUID(), principal_id: randomUUID(), principal_type: 'ServicePrincipal' }],
});

const newTarget = (installation_id: string, spec: AksSpec, clock: Clock): EnsureTarget => ({
  installation_id,
  pool: 'clusters',
  node_id: newNodeId(clock),
  node_instance_id: newNodeInstanceId(clock),
  name: 'node-1',
  zone: null,
  spec,
  workflow_id: newWorkflowId(clock),
  correlation_id: newCorrelationId(),
  state: {},
  bootstrap: {
    server_url: 'http://127.0.0.1:1',
    enrollment_token: 'swe_enrolment-secret-of-this-machine',
    deadline_at: '2100-01-01T00:00:00Z',
    requires: [],
  },
});

/**
 * Loads Azure's SDKs in advance. On a busy machine loading takes longer than a call's timeout, so
 * the first calls would only report a timeout.
 */
export async function loadSdks(arm: Arm): Promise<void> {
  const fixture = aksFixture(arm);
  const { inspect } = fixture.open();
  await until('the SDKs to be loaded', async () => !(await inspect(fixture.withSpec({}))).unseen);
  arm.reset();
}

/** All tests of a file share the fake Azure; `close` empties it. */
export function aksFixture(arm: Arm, options: Partial<AksDriverOptions> = {}): AksFixture {
  const installation_id = `installation-${randomBytes(6).toString('hex')}`;
  const environment = arm.environment();
  const clock = options.clock ?? systemClock;
  const driverOptions: AksDriverOptions = {
    endpoint: arm.url,
    ca: arm.ca,
    environment,
    // All drivers of a test share one sign-in.
    credential: createCredential(environment, arm.ca),
    allow_roles_anywhere: false,
    clock,
    subscriptionsInUse: async () => [arm.subscription_id],
    poll_seconds: 0.02,
    ...options,
  };
  const open = () => createAksDriver(driverOptions);
  const targetOf = (owner: string, spec: Partial<AksSpec> = {}) =>
    newTarget(owner, { ...usualSpec(arm.subscription_id), ...spec }, clock);
  const resourcesOf = (target: DriverTarget) => arm.resources().filter(({ tags }) => areInstanceTags(tags, target));
  const clustersOf = (target: DriverTarget) => resourcesOf(target).filter(({ kind }) => kind === 'cluster');

  /** Calls `ensure` until the condition holds, then discards the driver's state. */
  const ensureUntil = async (target: EnsureTarget, reached: (outcome: string) => boolean) => {
    for (let outcome = ''; !reached(outcome); ) {
      const answer = await open().ensure(target);
      outcome = answer.outcome;
      if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    }
    target.state = {};
  };
  return {
    arm,
    options: driverOptions,
    installation_id,
    open,
    target: targetOf,
    withSpec: (spec) => targetOf(installation_id, spec),
    resourcesOf,
    machines: async (target) => clustersOf(target).length,
    killMachine: async (target) => arm.alter({ name: clusterName(target) }, { power: 'Stopped' }),
    partialLaunches: [
      {
        name: 'an empty resource group',
        leave: async (target) =>
          arm.plant({ group: clusterName(target), location: 'westeurope', tags: tagsOf(target) }),
      },
      {
        name: 'a cluster that Azure is still creating, without saved state',
        leave: (target) => ensureUntil(target, () => clustersOf(target).length > 0),
      },
      {
        name: 'a cluster without its role assignments',
        async leave(target) {
          arm.faults.role_assignments = refusals.denied();
          await ensureUntil(target, (outcome) => outcome === 'failed');
          arm.faults.role_assignments = null;
        },
      },
    ],
    beforeProof: async () => {},
    silence: async () => arm.hang(),
    close: async () => arm.reset(),
  };
}
