/**
 * The fixture of the ec2 driver's conformance tests. It runs the driver against a fake EC2 endpoint
 * and gives tests direct access to the account behind it.
 */
import { systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../src/base/ids.ts';
import type { DriverFixture } from '../../../src/drivers/conformance.ts';
import type { DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { createEc2Driver, type Ec2DriverOptions } from '../../../src/drivers/ec2/ec2-driver.ts';
import type { Ec2Spec } from '../../../src/drivers/ec2/spec.ts';
import { tagNames } from '../../../src/drivers/ec2/tags.ts';
import type { FakeInstance } from './account.ts';
import { type Ec2Server, someImage, startEc2 } from './ec2-server.ts';

/** The credentials that the server reads from its environment. */
export const accountSecrets = {
  AWS_ACCESS_KEY_ID: 'AKIDOFNOBODYATALL123',
  AWS_SECRET_ACCESS_KEY: 'a-secret-key-that-nobody-may-ever-see+/=',
  AWS_SESSION_TOKEN: 'a-session-token-that-nobody-may-ever-see',
};

export const region = 'eu-central-1';
export const usualSpec: Ec2Spec = { region, image_id: someImage, instance_type: 't3.small' };

export const newTarget = (installation_id: string, spec: Partial<Ec2Spec> = {}): EnsureTarget => ({
  installation_id,
  pool: 'cloud',
  node_id: newNodeId(systemClock),
  node_instance_id: newNodeInstanceId(systemClock),
  name: 'node-1',
  zone: null,
  spec: { ...usualSpec, ...spec },
  workflow_id: newWorkflowId(systemClock),
  correlation_id: newCorrelationId(),
  state: {},
  bootstrap: {
    server_url: 'https://slipway.example.com',
    enrollment_token: 'swe_enrolment-secret-of-this-machine',
    deadline_at: '2100-01-01T00:00:00Z',
    requires: [],
  },
});

export interface Ec2Fixture extends DriverFixture {
  server: Ec2Server;
  open(options?: Partial<Ec2DriverOptions>): ReturnType<typeof createEc2Driver>;
  instancesOf(target: DriverTarget): FakeInstance[];
}

export async function ec2Fixture(): Promise<Ec2Fixture> {
  Object.assign(process.env, accountSecrets);
  const server = await startEc2();
  const open = (options: Partial<Ec2DriverOptions> = {}) =>
    createEc2Driver({
      endpoint: server.endpoint,
      clock: systemClock,
      regionsInUse: async () => [region],
      bundleDigest: async () => 'a'.repeat(64),
      poll_seconds: 0.01,
      ...options,
    });
  const instancesOf = (target: DriverTarget) =>
    [...server.account.instances.values()].filter(
      ({ tags }) => tags[tagNames.node_instance_id] === target.node_instance_id,
    );
  const findRunning = (target: DriverTarget) =>
    instancesOf(target).filter(({ state }) => state === 'pending' || state === 'running');
  /** Calls `ensure` until the account has the instance, and does not wait until it runs. */
  const requestInstance = async (target: EnsureTarget) => {
    const driver = open();
    for (let tries = 0; instancesOf(target).length === 0 && tries < 5; tries++) {
      const answer = await driver.ensure(target);
      if (answer.outcome !== 'failed' && answer.state) target.state = answer.state;
    }
    if (instancesOf(target).length !== 1) throw new Error('the driver requested no instance');
  };
  return {
    server,
    open,
    instancesOf,
    target: (installation_id) => newTarget(installation_id),
    machines: async (target) => findRunning(target).length,
    async killMachine(target) {
      for (const instance of findRunning(target)) {
        instance.state = 'stopped';
        instance.reason = 'Client.InstanceInitiatedShutdown: Instance initiated shutdown';
      }
    },
    partialLaunches: [
      {
        name: 'an instance that was launched and never recorded',
        async leave(target) {
          await requestInstance(target);
          target.state = {};
        },
      },
      {
        name: 'an instance whose launch was never answered',
        async leave(target) {
          server.plant('RunInstances', { cut: 'after' }, 1);
          await requestInstance(target);
        },
      },
      {
        name: 'a running instance that was launched with other parameters',
        async leave(target) {
          await requestInstance(target);
          target.state = {};
          target.bootstrap.deadline_at = '2100-01-01T00:05:00Z';
        },
      },
      {
        name: 'an instance that was stopped from outside',
        async leave(target) {
          await requestInstance(target);
          for (const instance of findRunning(target)) instance.state = 'stopped';
        },
      },
      {
        name: 'a volume left behind by its instance, and the record of a launch',
        async leave(target) {
          await requestInstance(target);
          for (const attachment of server.account.attachments.values()) {
            if (attachment.tags[tagNames.node_instance_id] === target.node_instance_id && attachment.kind === 'volume')
              attachment.instance = null;
          }
        },
      },
    ],
    beforeProof: async () => {},
    silence: async () => server.plant('*', 'hang'),
    close: () => server.close(),
  };
}
