/**
 * Starts an instance's agent, once. A repeat finds the directory and the process by their tags.
 *
 * An agent that ended by itself (it gave up, its set-up failed, it crashed) is not restarted: the
 * pool's `attempts` decide about another instance. An agent that vanished (killed, host rebooted)
 * is launched again a few times, after its leftovers were ended. The exit code tells the two apart,
 * and only the launcher learns it, a moment after the process is gone: so wait for a launcher that
 * is alive.
 */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { DriverFailure, DriverOutcome, EnsureTarget } from '../driver.ts';
import { agentEnd, lastLines } from './agent-end.ts';
import { exclusively } from './files/exclusive.ts';
import { readLaunch } from './files/launch-record.ts';
import { claimDirectory, directoryOf, files } from './files/node-directory.ts';
import { errorCode } from './host-failure.ts';
import { launch } from './launch.ts';
import { type LocalHost, lockName } from './local-host.ts';

const max_launches = 3;
const soon_seconds = 0.1;

export async function ensure(host: LocalHost, target: EnsureTarget): Promise<DriverOutcome> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const outcome = await exclusively(lockName(target), () => ensureAlone(host, target, directory));
  return (
    outcome ?? { outcome: 'wait', retry_seconds: soon_seconds, message: 'another process is launching this machine' }
  );
}

async function ensureAlone(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
  await mkdir(host.nodes_dir, { recursive: true, mode: 0o700 });
  const claim = await claimDirectory(directory, target);
  if (claim === 'of_another') return ofAnother(directory);
  // A directory made just now has no processes, so a normal launch does not scan for any.
  if (claim === 'made_now') return launchOrBlame(host, target, directory);

  const { agent, all } = await host.processes.of(target);
  if (agent) {
    return {
      outcome: 'done',
      message: `agent process ${agent.pid} runs on host ${host.host_id}`,
      state: { ...target.state, host_id: host.host_id, directory, pid: agent.pid },
    };
  }
  const { launches, launcher } = await readLaunch(directory);
  // Checked before the record is read: a launcher that is gone by now writes nothing more.
  const may_still_be_recorded = launcher !== null && host.processes.startOf(launcher.pid) === launcher.start;
  const end = await agentEnd(directory);
  if (end?.by_itself) return exited(directory, end.summary);
  if (!end && may_still_be_recorded) {
    return {
      outcome: 'wait',
      retry_seconds: soon_seconds,
      message: `the agent process is gone; server process ${launcher.pid}, which launched it, has not recorded yet how it ended`,
    };
  }
  if (launches >= max_launches) return exited(directory, `the agent process vanished ${launches} times`);
  if (all.length > 0) {
    host.processes.signal(all, 'SIGKILL');
    return {
      outcome: 'wait',
      retry_seconds: soon_seconds,
      message: `ending what a vanished agent left: ${all.length} processes`,
    };
  }
  return launchOrBlame(host, target, directory);
}

async function launchOrBlame(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
  try {
    return await launch(host, target, directory);
  } catch (error) {
    if (!(error instanceof Error && errorCode(error) === 'ENOENT' && 'path' in error)) throw error;
    if (error.path !== host.agent_command[0]) throw error;
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'agent_command_missing',
      message: `the agent cannot be started on host ${host.host_id}: ${error.message}`,
      retryable: false,
    };
  }
}

async function exited(directory: string, summary: string): Promise<DriverFailure> {
  const lines = await lastLines(join(directory, files.agent_output), 5);
  return {
    outcome: 'failed',
    owner_layer: 'node',
    code: 'agent_exited',
    message: lines ? `${summary}\n${lines}` : summary,
    retryable: false,
  };
}

export function ofAnother(directory: string): DriverFailure {
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: 'directory_of_another',
    message: `${directory} carries the marker of another installation or instance and was left alone`,
    retryable: false,
  };
}
