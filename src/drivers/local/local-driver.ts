/**
 * Runs each node as processes of this host, in its own directory and with the same agent as every
 * other machine.
 *
 * The driver keeps records only in the instance's directory. It finds the directory by name and
 * marker, and the processes by the tags in their environment. So a crash between any two steps
 * loses nothing, and kill -9 of the server ends no node.
 */
import { realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { env } from 'node:process';
import type { Clock } from '../../base/clock.ts';
import { unseenObservation } from '../answers.ts';
import type { Driver, DriverFailure, DriverTarget, PlannedStep } from '../driver.ts';
import { ensure } from './ensure.ts';
import { errorCode, hostFailure } from './host-failure.ts';
import { diagnose, inspect, listOwned, prove } from './inspect.ts';
import type { DriverLog, LocalHost } from './local-host.ts';
import { createReader, processTable } from './processes/instance-processes.ts';
import type { ProcessReader } from './processes/procfs.ts';
import { LocalSpec } from './spec.ts';
import { abort, clean, destroy, stop } from './teardown.ts';

export interface LocalDriverOptions {
  nodes_dir: string;
  /**
   * The command that runs the agent, such as Node and the bundle; `--config <file>` is appended.
   */
  agent_command: string[];
  host_id: string;
  clock: Clock;
  log?: DriverLog;
  stop_grace_seconds?: number;
  clean_timeout_seconds?: number;
  /** Reads the process table. Default: /proc, or `ps` on a host without it. */
  processes?: ProcessReader;
}

/** The plan has one step, because the machine's boot stages show what follows the launch. */
const plan = (): PlannedStep[] => [
  { phase: 'launch', label: 'Launching', usual_seconds: 0.5, owner_layer: 'provider' },
];

/** The real path of a directory that the first launch may still have to create. */
function realPathOf(directory: string): string {
  try {
    return realpathSync(directory);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
    return join(realPathOf(dirname(directory)), basename(directory));
  }
}

export function createLocalDriver(options: LocalDriverOptions): Driver {
  const nodes_dir = realPathOf(options.nodes_dir);
  const { agent_command, host_id, clock } = options;
  const host: LocalHost = {
    nodes_dir,
    agent_command,
    host_id,
    clock,
    log: options.log ?? (() => {}),
    processes: processTable(clock, nodes_dir, options.processes ?? createReader(clock, nodes_dir)),
    stop_grace_seconds: options.stop_grace_seconds ?? 10,
    clean_timeout_seconds: options.clean_timeout_seconds ?? 300,
    inherited: { PATH: env.PATH ?? '/usr/local/bin:/usr/bin:/bin', LANG: env.LANG ?? 'C.UTF-8' },
  };

  /**
   * A node's processes and files exist only on the host that launched it. On any other host it
   * would look absent.
   */
  const otherHostOf = ({ state }: DriverTarget): string | null =>
    typeof state.host_id === 'string' && state.host_id !== host_id ? state.host_id : null;

  const wrongHost = (otherHost: string): DriverFailure => ({
    outcome: 'failed',
    owner_layer: 'provider',
    code: 'wrong_host',
    message: `the node runs on host ${otherHost}; this is host ${host_id}`,
    retryable: true,
  });

  const onThisHost =
    <T extends DriverTarget, Rest extends unknown[], Outcome>(
      call: (host: LocalHost, target: T, ...rest: Rest) => Promise<Outcome>,
    ) =>
    async (target: T, ...rest: Rest): Promise<Outcome | DriverFailure> => {
      const otherHost = otherHostOf(target);
      if (otherHost !== null) return wrongHost(otherHost);
      try {
        return await call(host, target, ...rest);
      } catch (error) {
        return hostFailure(error);
      }
    };

  return {
    name: 'local',
    supervision: 'agent',
    launches: true,
    host_bound: true,
    host_id,
    final_proof: 'absent',
    spec_schema: LocalSpec,
    plan,
    ensure: onThisHost(ensure),
    stop: onThisHost(stop),
    clean: onThisHost(clean),
    destroy: onThisHost(destroy),
    prove: onThisHost(prove),
    abort: onThisHost(abort),
    async inspect(target) {
      const otherHost = otherHostOf(target);
      if (otherHost === null) return inspect(host, target);
      return unseenObservation(wrongHost(otherHost).message);
    },
    async diagnose(target) {
      const otherHost = otherHostOf(target);
      if (otherHost === null) return diagnose(host, target);
      return { summary: wrongHost(otherHost).message, certain: false, attachments: [] };
    },
    list_owned: (installation_id) => listOwned(host, installation_id),
  };
}
