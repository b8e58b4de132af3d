/** What the docker driver's calls share: the engines, what is handed to containers, and how long they get. */
import type { Clock } from '../../base/clock.ts';
import type { DriverTarget } from '../driver.ts';
import type { ContainerRow, Engine } from './engine.ts';
import { carries, instanceLabels } from './labels.ts';
import type { Pulls } from './pull.ts';
import { isDockerSpec } from './spec.ts';

export interface DockerHost {
  host_id: string;
  clock: Clock;
  /** Node and the agent's one file on this host, for containers that are given them. */
  agent_files: { node: string; bundle: string };
  stop_grace_seconds: number;
  pulls: Pulls;
  /** An address as in `docker_host`; the server's own where a pool names none. */
  engineAt(address: string | undefined): Promise<Engine>;
  /** Every engine that a pool names, now or earlier. */
  addressesInUse(): Promise<(string | null)[]>;
  list(engine: Engine, installation_id: string): Promise<ContainerRow[]>;
  /** Takes out what must not be told. */
  strike(text: string): string;
}

const keptAddress = ({ state }: DriverTarget) =>
  typeof state.docker_host === 'string' ? state.docker_host : undefined;

/** The engine that a machine is, or is to be, on. */
export function addressOf(target: DriverTarget): string | undefined {
  return keptAddress(target) ?? (isDockerSpec(target.spec) ? target.spec.docker_host : undefined);
}

/** Of something whose pool nobody remembers it is not known where it is, so all are looked at: absence on one proves nothing. */
export async function enginesOf(host: DockerHost, target: DriverTarget): Promise<Engine[]> {
  if (keptAddress(target) !== undefined || isDockerSpec(target.spec)) return [await host.engineAt(addressOf(target))];
  const engines = await Promise.all(
    (await host.addressesInUse()).map((address) => host.engineAt(address ?? undefined)),
  );
  return [...new Map(engines.map((engine) => [engine.address, engine])).values()];
}

/** What exists of an instance on one engine. The labels are looked at once more: what does not carry them is nobody's to touch. */
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
