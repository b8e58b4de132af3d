/**
 * The request that creates a container. It holds no secret, because the engine shows it to all its
 * users.
 */
import type Docker from 'dockerode';
import type { DriverTarget } from '../driver.ts';
import { inContainer } from './agent-files.ts';
import type { DockerHost } from './docker-host.ts';
import { containerName, labelsOf } from './labels.ts';
import type { DockerSpec } from './spec.ts';

const bind = (Source: string, Target: string, ReadOnly: boolean) => ({
  Type: 'bind' as const,
  Source,
  Target,
  ReadOnly,
});

const megabyte = 1024 * 1024;

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
