/**
 * The fixture of the docker driver's conformance tests. It runs the driver against a real engine
 * and lets tests call the engine directly.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../src/base/ids.ts';
import type { DriverFixture } from '../../../src/drivers/conformance.ts';
import { createDockerDriver, type DockerDriverOptions } from '../../../src/drivers/docker/docker-driver.ts';
import { containerOptions } from '../../../src/drivers/docker/ensure.ts';
import { instanceLabels } from '../../../src/drivers/docker/labels.ts';
import { type DockerSpec, dockerSpec } from '../../../src/drivers/docker/spec.ts';
import type { DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { type SilentListener, silentListener } from '../silent-listener.ts';
import { until } from '../until.ts';
import type { TestEngine, WireContainer } from './engine.ts';

export interface DockerFixture extends DriverFixture {
  options: DockerDriverOptions;
  installation_id: string;
  withSpec(spec: Partial<DockerSpec>): EnsureTarget;
  containersOf(target: DriverTarget): Promise<WireContainer[]>;
}

export const driverOptions = (
  docker_host: string,
  options: Partial<DockerDriverOptions> = {},
): DockerDriverOptions => ({
  docker_host,
  cert_dir: null,
  auth_file: null,
  allow_host_access: false,
  agent_files: { node: process.execPath, bundle: '/nowhere/agent.mjs' },
  host_id: 'host-a',
  clock: systemClock,
  addressesInUse: async () => [null],
  stop_grace_seconds: 1,
  ...options,
});

export const newTarget = (installation_id: string, spec: DockerSpec): EnsureTarget => ({
  installation_id,
  pool: 'containers',
  node_id: newNodeId(systemClock),
  node_instance_id: newNodeInstanceId(systemClock),
  name: 'node-1',
  zone: null,
  spec,
  workflow_id: newWorkflowId(systemClock),
  correlation_id: newCorrelationId(),
  state: {},
  bootstrap: {
    server_url: 'http://127.0.0.1:1',
    enrollment_token: 'swe_enrolment-secret-of-this-machine',
    deadline_at: '2100-01-01T00:00:00Z',
    requires: [],
  },
});

/** All tests of a file share the engine. `close` removes the containers of one fixture. */
export function dockerFixture(engine: TestEngine, options: Partial<DockerDriverOptions> = {}): DockerFixture {
  const installation_id = `installation-${randomBytes(6).toString('hex')}`;
  const driverSettings = driverOptions(engine.docker_host, options);
  const defaultSpec: DockerSpec = { image: engine.image, agent: 'image', network: 'host' };
  const open = () => createDockerDriver(driverSettings);
  const targets: EnsureTarget[] = [];
  let silentEngine: SilentListener | undefined;
  const targetOf = (owner: string, spec: Partial<DockerSpec> = {}) => {
    const target = newTarget(owner, { ...defaultSpec, ...spec });
    targets.push(target);
    return target;
  };
  const containersOf = (target: DriverTarget) => engine.containers(instanceLabels(target));
  const findRunning = async (target: DriverTarget) =>
    (await containersOf(target)).filter(({ State }) => State === 'running');
  const killMachine = async (target: DriverTarget) => {
    for (const { Id } of await findRunning(target)) await engine.call('POST', `/containers/${Id}/kill?signal=SIGKILL`);
    await until('the killed container to exit', async () =>
      (await findRunning(target)).length === 0 ? true : undefined,
    );
  };
  const createContainer = async (target: EnsureTarget) => {
    const { name, ...body } = containerOptions(driverSettings, target, dockerSpec(target.spec));
    const { status } = await engine.call('POST', `/containers/create?name=${name}`, body);
    if (status !== 201) throw new Error(`the engine did not create the container: ${status}`);
  };
  return {
    options: driverSettings,
    installation_id,
    open,
    target: targetOf,
    withSpec: (spec) => targetOf(installation_id, spec),
    containersOf,
    machines: async (target) => (await findRunning(target)).length,
    killMachine,
    partialLaunches: [
      { name: 'a container without its files, never started', leave: createContainer },
      {
        name: 'a running container that was never recorded',
        async leave(target) {
          await open().ensure(target);
          target.state = {};
        },
      },
      {
        name: 'a container that was started and killed',
        async leave(target) {
          await open().ensure(target);
          await killMachine(target);
          target.state = {};
        },
      },
    ],
    beforeProof: async () => {},
    async silence() {
      const path = join(tmpdir(), `${installation_id}.sock`);
      silentEngine = await silentListener({ path });
      driverSettings.docker_host = `unix://${path}`;
      for (const { state } of targets) if (state.docker_host) state.docker_host = driverSettings.docker_host;
    },
    async close() {
      await silentEngine?.close();
      rmSync(join(tmpdir(), `${installation_id}.sock`), { force: true });
      for (const target of targets)
        for (const { Id } of await containersOf(target)) await engine.call('DELETE', `/containers/${Id}?force=true`);
    },
  };
}
