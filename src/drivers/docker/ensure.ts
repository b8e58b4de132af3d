/**
 * Starts an instance's container, once: image, container, agent files, start. Earlier work is found
 * by the labels. A container whose agent ended by itself is not restarted: the pool's `attempts`
 * decide about another instance. One that was ended from outside (killed, host rebooted) is
 * restarted a few times.
 */

import type Docker from 'dockerode';
import { isLoopbackUrl } from '../../base/network/insecure-http.ts';
import { permanentFailure } from '../answers.ts';
import type { DriverFailure, DriverOutcome, DriverTarget, EnsureTarget } from '../driver.ts';
import { agentEnd } from './agent-end.ts';
import { agentFiles, inContainer } from './agent-files.ts';
import { addressOf, type DockerHost, ownOn } from './docker-host.ts';
import type { ContainerRow, Engine } from './engine.ts';
import { carries, containerName, instanceLabels, labelsOf } from './labels.ts';
import { type DockerSpec, dockerSpec } from './spec.ts';

const bind = (Source: string, Target: string, ReadOnly: boolean) => ({
  Type: 'bind' as const,
  Source,
  Target,
  ReadOnly,
});

const megabyte = 1024 * 1024;

/** The create request. It holds no secret, because the engine shows it to all its users. */
export function containerOptions(
  { agent_files }: Pick<DockerHost, 'agent_files'>,
  target: DriverTarget,
  spec: DockerSpec,
): Docker.ContainerCreateOptions {
  const mounted = (spec.agent ?? 'mounted') === 'mounted';
  const ours = mounted
    ? [bind(agent_files.node, inContainer.node, true), bind(agent_files.bundle, inContainer.bundle, true)]
    : [];
  const theirs = (spec.mounts ?? []).map(({ source, target: at, read_only = true }) => bind(source, at, read_only));
  return {
    name: containerName(target),
    Image: spec.image,
    Labels: labelsOf(target),
    // The default places for a tenant's files are the ones that the agent empties.
    Env: [`HOME=${inContainer.work}`, `TMPDIR=${inContainer.temporary}`],
    ...(mounted && { Entrypoint: [inContainer.node, inContainer.bundle, '--config', inContainer.config], Cmd: [] }),
    HostConfig: {
      Mounts: [...ours, ...theirs],
      // The control plane decides whether an ended machine comes back, not the engine.
      RestartPolicy: { Name: 'no' },
      ...(spec.network !== undefined && { NetworkMode: spec.network }),
      ...(spec.memory_mb !== undefined && { Memory: spec.memory_mb * megabyte }),
      ...(spec.cpus !== undefined && { NanoCpus: Math.round(spec.cpus * 1e9) }),
      ...(spec.privileged === true && { Privileged: true }),
    },
  };
}

const max_starts = 3;
const soon_seconds = 0.2;

/** Fails before anything is created if the machine could never register. */
function cannotWork(engine: Engine, { bootstrap }: EnsureTarget, spec: DockerSpec): DriverFailure | null {
  if ((spec.agent ?? 'mounted') === 'mounted' && !engine.on_this_host)
    return permanentFailure(
      'agent_not_mountable',
      `the engine at ${engine.address} is not reached by a socket of this host, so this host's agent cannot be mounted: use an image that brings it, with \`agent: image\``,
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
  const [row] = await ownOn(engine, target);
  if (row?.state === 'running') return running(host, engine, target, row, startsOf(target));
  if (row && row.state !== 'created') return restart(host, engine, target, row);
  const problem = cannotWork(engine, target, spec);
  if (problem) return problem;
  const user = await engine.userOf(spec.image);
  if (user === null) return pulled(host, engine, target, spec);
  host.pulls.forget(target.node_instance_id);
  return row ? start(host, engine, target, row, user) : create(host, engine, target, spec, user);
}

async function pulled(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  { image }: DockerSpec,
): Promise<DriverOutcome> {
  const answer = await host.pulls.ask(engine, image, target.node_instance_id);
  if (answer) return answer;
  if ((await engine.userOf(image)) !== null)
    return { outcome: 'wait', retry_seconds: 0, message: `image ${image} was pulled`, phase: 'create' };
  return permanentFailure(
    'image_missing',
    `image ${image} was pulled, and the engine at ${engine.address} does not have it`,
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
  const created = await engine.create(containerOptions(host, target, spec));
  const [row] = await ownOn(engine, target);
  if (row?.state === 'created') return start(host, engine, target, row, user);
  if (row)
    return {
      outcome: 'wait',
      retry_seconds: soon_seconds,
      message: 'another process is creating this container',
      phase: 'create',
    };
  const name = containerName(target);
  const theirs = created ? null : await engine.labelsOf(name);
  if (theirs && !carries(theirs, instanceLabels(target)))
    return permanentFailure(
      'name_of_another',
      `a container ${name} that is not ours exists on the engine at ${engine.address} and was left alone`,
      {
        phase: 'create',
      },
    );
  return {
    outcome: 'wait',
    retry_seconds: soon_seconds,
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
  await engine.put(row.id, agentFiles(target, user));
  await engine.start(row.id);
  return running(host, engine, target, row, starts);
}

function running(
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
      // Only for an engine of this host: every replica can reach one over the network.
      ...(engine.on_this_host && { host_id: host.host_id }),
    },
  };
}

/**
 * Not `stopped`: Podman uses it for an ended container whose files cannot be read until it is
 * cleaned up.
 */
const ended = ['exited', 'dead'];

async function restart(
  host: DockerHost,
  engine: Engine,
  target: EnsureTarget,
  row: ContainerRow,
): Promise<DriverOutcome> {
  if (!ended.includes(row.state))
    return {
      outcome: 'wait',
      retry_seconds: 1,
      message: `the engine shows the container as ${row.state}`,
      phase: 'start',
    };
  const end = await agentEnd(engine, row.id);
  const starts = startsOf(target) + 1;
  const summary = host.redact(end?.summary ?? 'the container is gone');
  const code = end?.code === 'out_of_memory' ? end.code : 'agent_exited';
  if (end?.by_itself) return permanentFailure(code, summary, { owner_layer: 'node', phase: 'start' });
  if (starts > max_starts)
    return permanentFailure('agent_exited', `${summary}, after ${starts - 1} starts`, {
      owner_layer: 'node',
      phase: 'start',
    });
  const user = (await engine.userOf(dockerSpec(target.spec).image)) ?? '';
  return start(host, engine, target, row, user, starts);
}
