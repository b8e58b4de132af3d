/** The directories, commands and time limits that all calls of the local driver share. */

import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { DriverTarget } from '../driver.ts';
import { files } from './files/node-directory.ts';
import type { ProcessTable } from './processes/instance-processes.ts';
import { tagNames } from './processes/procfs.ts';

export type DriverLog = (message: string, facts: Record<string, unknown>) => void;

export interface LocalHost {
  /** The real path, without symbolic links, as the kernel reports it. */
  nodes_dir: string;
  agent_command: string[];
  host_id: string;
  clock: Clock;
  log: DriverLog;
  processes: ProcessTable;
  stop_grace_seconds: number;
  clean_timeout_seconds: number;
  /** The server's own PATH and LANG: the only variables that a node inherits. */
  inherited: { PATH: string; LANG: string };
}

/**
 * The name of the lock that all processes on this host share to launch, clean or destroy this
 * instance.
 */
export const lockName = (target: DriverTarget) => `slipway.${target.node_instance_id}`;

/** The ids for log lines about this machine. */
export const idsOf = ({ node_id, node_instance_id, workflow_id, correlation_id }: DriverTarget) => ({
  node_id,
  node_instance_id,
  workflow_id,
  correlation_id,
});

/** The whole environment of a node's processes. No other variable of the server is passed on. */
export function environmentOf(
  host: LocalHost,
  target: DriverTarget,
  directory: string,
  env: Record<string, string> = {},
) {
  return {
    PATH: host.inherited.PATH,
    LANG: host.inherited.LANG,
    HOME: join(directory, files.work),
    TMPDIR: join(directory, files.temporary),
    ...env,
    [tagNames.installation_id]: target.installation_id,
    [tagNames.node_id]: target.node_id,
    [tagNames.node_instance_id]: target.node_instance_id,
  };
}
