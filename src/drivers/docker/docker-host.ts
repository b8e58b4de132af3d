/** Shared by all calls of the docker driver: engines, agent files and time limits. */
import type { Clock } from '../../base/clock.ts';
import type { DriverTarget } from '../driver.ts';
import type { ContainerRow, Engine } from './engine.ts';
import { carries, instanceLabels } from './labels.ts';
import type { Pulls } from './pull.ts';
import { isDockerSpec } from './spec.ts';

export interface DockerHost {
  host_id: string;
  clock: Clock;
  /** Node and the agent's bundle on this host, for containers that mount them. */
  agent_files: { node: string; bundle: string };
  stop_grace_seconds: number;
  pulls: Pulls;
  /** `address` as in `docker_host`; undefined for the server's own engine. */
  engineAt(address: string | undefined): Promise<Engine>;
  /** Every engine that a pool names, now or earlier. */
  addressesInUse(): Promise<(string | null)[]>;
  list(engine: Engine, installation_id: string): Promise<ContainerRow[]>;
  /** Redacts secrets. */
  redact(text: string): string;
}

const keptAddress = ({ state }: DriverTarget) =>
  typeof state.docker_host === 'string' ? state.docker_host : undefined;

/** The engine that a machine is on, or will be on. */
export function addressOf(target: DriverTarget): string | undefined {
  return keptAddress(target) ?? (isDockerSpec(target.spec) ? target.spec.docker_host : undefined);
}

/**
 * Without a known pool its engine is unknown, so all are searched: absence from one proves nothing.
 */
export async function enginesOf(host: DockerHost, target: DriverTarget): Promise<Engine[]> {
  if (keptAddress(target) !== undefined || isDockerSpec(target.spec)) return [await host.engineAt(addressOf(target))];
  const engines = await Promise.all(
    (await host.addressesInUse()).map((address) => host.engineAt(address ?? undefined)),
  );
  return [...new Map(engines.map((engine) => [engine.address, engine])).values()];
}

/**
 * The containers of an instance on one engine. Checks the labels again: nothing without them may be
 * touched.
 */
export async function ownOn(engine: Engine, target: DriverTarget): Promise<ContainerRow[]> {
  const wanted = instanceLabels(target);
  return (await engine.list(wanted)).filter(({ labels }) => carries(labels, wanted));
}

export interface Placed {
  engine: Engine;
  row: ContainerRow;
}

export async function ownAnywhere(
  host: DockerHost,
  target: DriverTarget,
): Promise<{ engines: Engine[]; found: Placed[] }> {
  const engines = await enginesOf(host, target);
  const rows = await Promise.all(
    engines.map(async (engine) => (await ownOn(engine, target)).map((row) => ({ engine, row }))),
  );
  return { engines, found: rows.flat() };
}
