/** The container engines, agent files and time limits that all calls of the docker driver share. */
import type { Clock } from '../../base/clock.ts';
import type { DriverTarget } from '../driver.ts';
import type { ContainerRow, Engine } from './engine.ts';
import { hasLabels, instanceLabels } from './labels.ts';
import type { Pulls } from './pull.ts';
import { isDockerSpec } from './spec.ts';

export interface DockerHost {
  host_id: string;
  clock: Clock;
  /** Paths of Node and the agent bundle on this host, for containers that mount them. */
  agent_files: { node: string; bundle: string };
  stop_grace_seconds: number;
  pulls: Pulls;
  /** `address` has the format of `docker_host`; undefined means the server's --docker-host. */
  engineAt(address: string | undefined): Promise<Engine>;
  /** Every engine that a pool names or named earlier; null for the server's --docker-host. */
  addressesInUse(): Promise<(string | null)[]>;
  list(engine: Engine, installation_id: string): Promise<ContainerRow[]>;
  /** Redacts secrets. */
  redact(text: string): string;
}

const storedAddress = ({ state }: DriverTarget) =>
  typeof state.docker_host === 'string' ? state.docker_host : undefined;

/** The engine that a machine is on, or will be on. */
export function addressOf(target: DriverTarget): string | undefined {
  return storedAddress(target) ?? (isDockerSpec(target.spec) ? target.spec.docker_host : undefined);
}

/**
 * Returns all engines in use if neither the stored state nor the spec names the instance's engine:
 * absence from one engine proves nothing then.
 */
export async function openEngines(host: DockerHost, target: DriverTarget): Promise<Engine[]> {
  if (storedAddress(target) !== undefined || isDockerSpec(target.spec)) return [await host.engineAt(addressOf(target))];
  const engines = await Promise.all(
    (await host.addressesInUse()).map((address) => host.engineAt(address ?? undefined)),
  );
  return [...new Map(engines.map((engine) => [engine.address, engine])).values()];
}

/**
 * Lists an instance's containers on one engine. Filters the reply again, so that an engine that
 * ignores the filter cannot make us touch a foreign container.
 */
export async function listInstanceOn(engine: Engine, target: DriverTarget): Promise<ContainerRow[]> {
  const labelsToMatch = instanceLabels(target);
  return (await engine.list(labelsToMatch)).filter(({ labels }) => hasLabels(labels, labelsToMatch));
}

export interface PlacedContainer {
  engine: Engine;
  row: ContainerRow;
}

export async function findInstance(
  host: DockerHost,
  target: DriverTarget,
): Promise<{ engines: Engine[]; containers: PlacedContainer[] }> {
  const engines = await openEngines(host, target);
  const rows = await Promise.all(
    engines.map(async (engine) => (await listInstanceOn(engine, target)).map((row) => ({ engine, row }))),
  );
  return { engines, containers: rows.flat() };
}
