/**
 * Brings an instance's container up: pulls the image, creates the container, copies the agent's
 * files and starts it. A repeated call finds the container of the earlier call by its labels.
 *
 * A container whose agent exited by itself is not restarted: the pool's `attempts` decide whether
 * another instance follows. A container that was killed, or that a host reboot ended, is restarted
 * a few times.
 */

import type Docker from 'dockerode';
import { isLoopbackUrl } from '../../base/network/insecure-http.ts';
import { permanentFailure } from '../answers.ts';
import type { DriverFailure, DriverOutcome, DriverTarget, EnsureTarget } from '../driver.ts';
import { readAgentEnd } from './agent-end.ts';
import { agentFiles, inContainer } from './agent-files.ts';
import { addressOf, type DockerHost, listInstanceOn } from './docker-host.ts';
import type { ContainerRow, Engine } from './engine.ts';
import { containerName, hasLabels, instanceLabels, labelsOf } from './labels.ts';
import { type DockerSpec, dockerSpec } from './spec.ts';

const bind = (Source: string, Target: string, ReadOnly: boolean) => ({
  Type: 'bind' as const,
  Source,
  Target,
  ReadOnly,
});

const megabyte = 1024 * 1024;

/** Builds the create request. It holds no secret, because every user of the engine can read it. */
export function containerOptions(
  { agent_files }: Pick<DockerHost, 'agent_files'>,
  target: DriverTarget,
  spec: DockerSpec,
): Docker.ContainerCreateOptions {
  const isMounted = (spec.agent ?? 'mounted') === 'mounted';
  const agentMounts = isMounted
    ? [bind(agent_files.node, inContainer.node, true), bind(agent_files.bundle, inContainer.bundle, true)]
    : [];
  const poolMounts = (spec.mounts ?? []).map(({ source, target: path, read_only = true }) =>
    bind(source, path, read_only),
  );
  return {
    name: containerName(target),
    Image: spec.image,
    Labels: labelsOf(target),
    // The agent empties these directories, so a tenant's files go there by default.
    Env: [`HOME=${inContainer.work}`, `TMPDIR=${inContainer.temporary}`],
    ...(isMounted && { Entrypoint: [inContainer.node, inContainer.bundle, '--config', inContainer.config], Cmd: [] }),
    HostConfig: {
      Mounts: [...agentMounts, ...poolMounts],
      // The control plane, not the engine, decides whether an ended machine is restarted.
      RestartPolicy: { Name: 'no' },
      ...(spec.network !== undefined && { NetworkMode: spec.network }),
      ...(spec.memory_mb !== undefined && { Memory: spec.memory_mb * megabyte }),
      ...(spec.cpus !== undefined && { NanoCpus: Math.round(spec.cpus * 1e9) }),
      ...(spec.privileged === true && { Privileged: true }),
    },
  };
}

const max_starts = 3;
const poll_seconds = 0.2;

/** Finds a reason why the machine could never register, before anything is created. */
function findLaunchProblem(engine: Engine, { bootstrap }: EnsureTarget, spec: DockerSpec): DriverFailure | null {
  if ((spec.agent ?? 'mounted') === 'mounted' && !engine.on_this_host)
    return permanentFailure(
      'agent_not_mountable',
      `the engine at ${engine.address} is not reached by a socket of this host, so this host's agent cannot be mounted: use an image that contains the agent, with \`agent: image\``,
    );
  if (spec.network !== 'host' && isLoopbackUrl(bootstrap.server_url))
    return permanentFailure(
      'server_unreachable',
      `the control plane is at ${bootstrap.server_url}, which inside a container is the container itself: give the pool \`network: host\`, or the server a --public-url`,
      { owner_layer: 'control_plane' },
    );
  return null;
}

export async function ensure(host: DockerHost, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = dockerSpec(target.spec);
  const engine = await host.engineAt(addressOf(target));
  const [row] = await listInstanceOn(engine, target);
  if (row?.state === 'running') return runningOutcome(host, engine, target, row, startsOf(target));
  if (row && row.state !== 'created') return restart(host, engine, target, row);
  const problem = findLaunchProblem(engine, target, spec);
  if (problem) return problem;
  const user = await engine.readImageUser(spec.image);
  if (user === null) return pullImage(host, engine, target, spec);
  host.pulls.stopWaiting(target.node_instance_id);
  return row ? start(host, engine, target, row, user) : create(host, engine, target, spec, user);
}

async function pullImage(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  { image }: DockerSpec,
): Promise<DriverOutcome> {
  const outcome = await host.pulls.poll(engine, image, target.node_instance_id);
  if (outcome) return outcome;
  if ((await engine.readImageUser(image)) !== null)
    return { outcome: 'wait', retry_seconds: 0, message: `image ${image} was pulled`, phase: 'create' };
  return permanentFailure(
    'image_missing',
    `image ${image} was pulled, but the engine at ${engine.address} does not have it`,
    {
      phase: 'pull_image',
    },
  );
}

async function create(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  spec: DockerSpec,
  user: string,
): Promise<DriverOutcome> {
  const isCreated = await engine.create(containerOptions(host, target, spec));
  const [row] = await listInstanceOn(engine, target);
  if (row?.state === 'created') return start(host, engine, target, row, user);
  if (row)
    return {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: 'another process is creating this container',
      phase: 'create',
    };
  const name = containerName(target);
  const conflictingLabels = isCreated ? null : await engine.readLabels(name);
  if (conflictingLabels && !hasLabels(conflictingLabels, instanceLabels(target)))
    return permanentFailure(
      'name_of_another',
      `the engine at ${engine.address} has a container ${name} that this installation did not create; it was not touched`,
      {
        phase: 'create',
      },
    );
  return {
    outcome: 'wait',
    retry_seconds: poll_seconds,
    message: `container ${name} is being created`,
    phase: 'create',
  };
}

const startsOf = ({ state }: EnsureTarget): number => (typeof state.starts === 'number' ? state.starts : 1);

async function start(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  row: ContainerRow,
  user: string,
  starts = 1,
): Promise<DriverOutcome> {
  const collision = await engine.put(row.id, agentFiles(target, user));
  if (collision !== null)
    return {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: `the agent's files are not in the container yet: ${host.redact(collision)}`,
      phase: 'create',
      error: { code: 'engine_error', owner_layer: 'provider' },
    };
  await engine.start(row.id);
  return runningOutcome(host, engine, target, row, starts);
}

function runningOutcome(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  row: ContainerRow,
  starts: number,
): DriverOutcome {
  return {
    outcome: 'done',
    message: `container ${row.id.slice(0, 12)} runs on the engine at ${engine.address}`,
    phase: 'start',
    state: {
      ...target.state,
      docker_host: engine.address,
      container_id: row.id,
      starts,
      // An engine on the network is reachable from every replica, so only a local engine binds the
      // machine to this host.
      ...(engine.on_this_host && { host_id: host.host_id }),
    },
  };
}

/**
 * Podman's `stopped` is not among these states: the files of such a container cannot be read until
 * Podman has cleaned up.
 */
const endedStates = ['exited', 'dead'];

async function restart(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  row: ContainerRow,
): Promise<DriverOutcome> {
  if (!endedStates.includes(row.state))
    return {
      outcome: 'wait',
      retry_seconds: 1,
      message: `the engine shows the container as ${row.state}`,
      phase: 'start',
    };
  const end = await readAgentEnd(engine, row.id);
  const starts = startsOf(target) + 1;
  const summary = host.redact(end?.summary ?? 'the container is gone');
  const code = end?.code === 'out_of_memory' ? end.code : 'agent_exited';
  if (end?.would_end_again) return permanentFailure(code, summary, { owner_layer: 'node', phase: 'start' });
  if (starts > max_starts)
    return permanentFailure('agent_exited', `${summary}, after ${starts - 1} starts`, {
      owner_layer: 'node',
      phase: 'start',
    });
  const user = (await engine.readImageUser(dockerSpec(target.spec).image)) ?? '';
  return start(host, engine, target, row, user, starts);
}
