/**
 * The fixture for the aks driver's conformance tests: a fake Azure, and direct access to its
 * resources.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../src/base/ids.ts';
import { type AksDriverOptions, createAksDriver } from '../../../src/drivers/aks/aks-driver.ts';
import { createCredential } from '../../../src/drivers/aks/azure/credential.ts';
import { clusterName } from '../../../src/drivers/aks/place.ts';
import type { AksSpec } from '../../../src/drivers/aks/spec.ts';
import { areOf, tagsOf } from '../../../src/drivers/aks/tags.ts';
import type { DriverWorld } from '../../../src/drivers/conformance.ts';
import type { DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { until } from '../until.ts';
import type { Arm, ArmResource } from './arm.ts';
import { refusals } from './refusal.ts';

export interface AksFixture extends DriverWorld {
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
 * Loads Azure's SDKs in advance. On a busy machine that takes longer than a call's timeout, and the
 * first answers would only report that.
 */
export async function loadSdks(arm: Arm): Promise<void> {
  const fixture = aksFixture(arm);
  const { observe } = fixture.open();
  await until('the SDKs to be loaded', async () => !(await observe(fixture.withSpec({}))).unseen);
  arm.reset();
}

/** All tests of a file share the fake Azure; `close` empties it. */
export function aksFixture(arm: Arm, options: Partial<AksDriverOptions> = {}): AksFixture {
  const installation_id = `installation-${randomBytes(6).toString('hex')}`;
  const environment = arm.environment();
  const clock = options.clock ?? systemClock;
  const complete: AksDriverOptions = {
    endpoint: arm.url,
    ca: arm.ca,
    environment,
    // One sign-in for all drivers of a test.
    credential: createCredential(environment, arm.ca),
    allow_roles_anywhere: false,
    clock,
    subscriptionsInUse: async () => [arm.subscription_id],
    look_seconds: 0.02,
    ...options,
  };
  const open = () => createAksDriver(complete);
  const target = (owner: string, spec: Partial<AksSpec> = {}) =>
    newTarget(owner, { ...usualSpec(arm.subscription_id), ...spec }, clock);
  const resourcesOf = (of: DriverTarget) => arm.resources().filter(({ tags }) => areOf(tags, of));
  const clustersOf = (of: DriverTarget) => resourcesOf(of).filter(({ kind }) => kind === 'cluster');

  /** Calls `ensure` until the condition holds, then discards the driver's state. */
  const ensureUntil = async (of: EnsureTarget, reached: (outcome: string) => boolean) => {
    for (let outcome = ''; !reached(outcome); ) {
      const answer = await open().ensure(of);
      outcome = answer.outcome;
      if (answer.outcome !== 'failed' && answer.state) of.state = answer.state;
    }
    of.state = {};
  };
  return {
    arm,
    options: complete,
    installation_id,
    open,
    target,
    withSpec: (spec) => target(installation_id, spec),
    resourcesOf,
    machines: async (of) => clustersOf(of).length,
    killMachine: async (of) => arm.alter({ name: clusterName(of) }, { power: 'Stopped' }),
    halfDone: [
      {
        name: 'an empty resource group',
        leave: async (of) => arm.plant({ group: clusterName(of), location: 'westeurope', tags: tagsOf(of) }),
      },
      {
        name: 'a cluster that Azure is still creating, with no state kept',
        leave: (of) => ensureUntil(of, () => clustersOf(of).length > 0),
      },
      {
        name: 'a cluster without its role assignments',
        async leave(of) {
          arm.faults.role_assignments = refusals.denied();
          await ensureUntil(of, (outcome) => outcome === 'failed');
          arm.faults.role_assignments = null;
        },
      },
    ],
    beforeProof: async () => {},
    silence: async () => arm.hang(),
    close: async () => arm.reset(),
  };
}
