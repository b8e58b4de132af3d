/**
 * The fixture for the docker driver's conformance tests: a real engine, and calls to it that bypass
 * the driver.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/base/clock.ts';
import { newCorrelationId, newNodeId, newNodeInstanceId, newWorkflowId } from '../../../src/base/ids.ts';
import type { DriverWorld } from '../../../src/drivers/conformance.ts';
import { createDockerDriver, type DockerDriverOptions } from '../../../src/drivers/docker/docker-driver.ts';
import { containerOptions } from '../../../src/drivers/docker/ensure.ts';
import { instanceLabels } from '../../../src/drivers/docker/labels.ts';
import { type DockerSpec, dockerSpec } from '../../../src/drivers/docker/spec.ts';
import type { DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { type SilentListener, silentListener } from '../silent-listener.ts';
import { until } from '../until.ts';
import type { TestEngine, WireContainer } from './engine.ts';

export interface DockerFixture extends DriverWorld {
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

/** All tests of a file share the engine; the fixture removes the containers of its own test. */
export function dockerFixture(engine: TestEngine, options: Partial<DockerDriverOptions> = {}): DockerFixture {
  const installation_id = `installation-${randomBytes(6).toString('hex')}`;
  const complete = driverOptions(engine.docker_host, options);
  const defaultSpec: DockerSpec = { image: engine.image, agent: 'image', network: 'host' };
  const open = () => createDockerDriver(complete);
  const made: EnsureTarget[] = [];
  let silent: SilentListener | undefined;
  const target = (owner: string, spec: Partial<DockerSpec> = {}) => {
    const one = newTarget(owner, { ...defaultSpec, ...spec });
    made.push(one);
    return one;
  };
  const containersOf = (of: DriverTarget) => engine.containers(instanceLabels(of));
  const running = async (of: DriverTarget) => (await containersOf(of)).filter(({ State }) => State === 'running');
  const killMachine = async (of: DriverTarget) => {
    for (const { Id } of await running(of)) await engine.call('POST', `/containers/${Id}/kill?signal=SIGKILL`);
    await until('killed container to be gone', async () => ((await running(of)).length === 0 ? true : undefined));
  };
  const createContainer = async (of: EnsureTarget) => {
    const { name, ...body } = containerOptions(complete, of, dockerSpec(of.spec));
    const { status } = await engine.call('POST', `/containers/create?name=${name}`, body);
    if (status !== 201) throw new Error(`nothing was planted: ${status}`);
  };
  return {
    options: complete,
    installation_id,
    open,
    target,
    withSpec: (spec) => target(installation_id, spec),
    containersOf,
    machines: async (of) => (await running(of)).length,
    killMachine,
    halfDone: [
      { name: 'a container without its files, never started', leave: createContainer },
      {
        name: 'a running container that was never recorded',
        async leave(of) {
          await open().ensure(of);
          of.state = {};
        },
      },
      {
        name: 'a container that was started and killed',
        async leave(of) {
          await open().ensure(of);
          await killMachine(of);
          of.state = {};
        },
      },
    ],
    beforeProof: async () => {},
    async silence() {
      const path = join(tmpdir(), `${installation_id}.sock`);
      silent = await silentListener({ path });
      complete.docker_host = `unix://${path}`;
      for (const { state } of made) if (state.docker_host) state.docker_host = complete.docker_host;
    },
    async close() {
      await silent?.close();
      rmSync(join(tmpdir(), `${installation_id}.sock`), { force: true });
      for (const one of made)
        for (const { Id } of await containersOf(one)) await engine.call('DELETE', `/containers/${Id}?force=true`);
    },
  };
}
