/**
 * Runs each node as a container of a Docker engine, or of Podman, which has the same API. The
 * container runs the same agent as every other machine.
 *
 * An instance is found by the labels of its container, so a crash between any two steps loses
 * nothing. The engine's client is loaded at first use.
 */
import type { Clock } from '../../base/clock.ts';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import type { Driver, DriverFailure, DriverTarget, PlannedStep } from '../driver.ts';
import { createDriverCalls } from '../driver-call.ts';
import { createSharedLists, openOnce } from '../open-once.ts';
import { addressOf, type DockerHost } from './docker-host.ts';
import { type ContainerRow, type Engine, openEngine } from './engine.ts';
import { messageOf } from './engine-error.ts';
import { engineFailure, engineUnavailable } from './engine-failure.ts';
import { ensure } from './ensure.ts';
import { diagnose, inspect, listOwned, prove } from './inspect.ts';
import { labelNames } from './labels.ts';
import { createPulls } from './pull.ts';
import { dockerSpecSchema } from './spec.ts';
import { abort, clean, destroy, stop } from './teardown.ts';

export interface DockerDriverOptions {
  /** The engine of pools without a `docker_host`. */
  docker_host: string;
  /** The directory of ca.pem, cert.pem and key.pem, for engines with TLS. */
  cert_dir: string | null;
  /** Registry credentials, in the format of `docker login`. */
  auth_file: string | null;
  /** Whether a pool may mount any directory and run privileged. */
  allow_host_access: boolean;
  agent_files: DockerHost['agent_files'];
  host_id: string;
  clock: Clock;
  /** The `docker_host` of each pool, null if it has none; empty if no pool uses this driver. */
  addressesInUse: DockerHost['addressesInUse'];
  stop_grace_seconds?: number;
}

const plan = (): PlannedStep[] => [
  { phase: 'pull_image', label: 'Pulling the image', usual_seconds: null, owner_layer: 'provider' },
  { phase: 'create', label: 'Creating the container', usual_seconds: 0.5, owner_layer: 'provider' },
  { phase: 'start', label: 'Starting the container', usual_seconds: 0.5, owner_layer: 'provider' },
];

export function createDockerDriver(options: DockerDriverOptions): Driver {
  const { clock, host_id } = options;
  const engineAt = openOnce((address) => openEngine(address, options));
  const listInstallation = (engine: Engine, installation_id: string): Promise<ContainerRow[]> =>
    engine.list({ [labelNames.installation_id]: installation_id });
  const host: DockerHost = {
    host_id,
    clock,
    agent_files: options.agent_files,
    stop_grace_seconds: options.stop_grace_seconds ?? 10,
    pulls: createPulls(options.auth_file),
    engineAt: (address = options.docker_host) => engineAt(address),
    addressesInUse: options.addressesInUse,
    list: createSharedLists(clock, ({ address }: Engine) => address, listInstallation),
    redact: (text) => builtInRedactor.text(text),
  };

  const placeOf = (target: DriverTarget) => addressOf(target) ?? options.docker_host;

  /**
   * A container behind another host's socket cannot be seen from this host. Without this check it
   * would look absent.
   */
  const wrongHost = ({ state }: DriverTarget): DriverFailure | null =>
    typeof state.host_id !== 'string' || state.host_id === host_id
      ? null
      : {
          outcome: 'failed',
          owner_layer: 'provider',
          code: 'wrong_host',
          message: `the container runs on the engine of host ${state.host_id}; this is host ${host_id}`,
          retryable: true,
        };

  const calls = createDriverCalls({
    host,
    clock,
    upstream: 'the container engine',
    failureOf: (error, target) => engineFailure(error, placeOf(target), host.redact),
    timeoutOf: (target) => engineUnavailable(placeOf(target), 'no answer in time'),
    refuse: wrongHost,
    describe: (error) => host.redact(messageOf(error)),
  });

  return {
    name: 'docker',
    supervision: 'agent',
    launches: true,
    // Anyone who may start containers on an engine controls its host.
    host_bound: true,
    host_id,
    final_proof: 'absent',
    spec_schema: dockerSpecSchema(options),
    plan,
    ensure: calls.change('ensure', ensure),
    stop: calls.change('stop', stop),
    clean: calls.change('clean', clean),
    destroy: calls.change('destroy', destroy),
    abort: calls.change('abort', abort),
    prove: calls.read(prove),
    inspect: calls.inspect(inspect),
    diagnose: calls.diagnose(diagnose),
    list_owned: calls.list(listOwned),
  };
}
