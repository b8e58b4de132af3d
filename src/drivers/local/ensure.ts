/**
 * Starts an instance's agent once. A repeated call finds the directory and the process by their
 * tags.
 *
 * An agent that exited by itself (it gave up, its set-up failed, it crashed) is not restarted: the
 * pool's `attempts` decide whether another instance follows. An agent that was killed, or that a
 * host reboot ended, is launched again a few times, after its remaining processes were killed. The
 * exit code distinguishes the two cases. Only the launcher receives it, shortly after the process
 * has ended, so a call waits while the launcher is alive.
 */

import { writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { now } from '../../base/clock.ts';
import { makeDirectory } from '../../base/files/make-directory.ts';
import { agentIdentity } from '../agent-config.ts';
import type { DriverFailure, DriverOutcome, EnsureTarget } from '../driver.ts';
import { launchEnv } from '../workload-spec.ts';
import { readAgentEnd, readLastLines } from './agent-end.ts';
import { withLock } from './files/exclusive.ts';
import { readLaunch } from './files/launch-record.ts';
import { directoryOf, ensureDirectory, files } from './files/node-directory.ts';
import { writeRecord } from './files/small-file.ts';
import { errorCode } from './host-failure.ts';
import { environmentOf, idsOf, type LocalHost, lockName } from './local-host.ts';
import { spawnDetached } from './processes/spawn-detached.ts';
import { localSpec } from './spec.ts';

/** The directories that the workload writes to by default: working directory, `HOME`, `TMPDIR`. */
const workloadDirectories = (directory: string) => [files.temporary, files.work].map((name) => join(directory, name));

/** The agent's entries in the directory. All others belong to the workload. */
const agentEntries = [files.marker, files.agent_config, files.agent_output, files.launch, files.temporary, files.work];

function agentConfig(target: EnsureTarget, directory: string) {
  const spec = localSpec(target.spec);
  return {
    ...agentIdentity(target),
    dir: directory,
    work_dir: join(directory, files.work),
    workload_dirs: workloadDirectories(directory),
    dir_keeps: agentEntries,
    output_file: join(directory, files.agent_output),
    setup: spec.setup ?? null,
    command: spec.command ?? null,
    clean: spec.clean ?? null,
    env: launchEnv(spec.env),
    boot_stages: spec.boot_stages ?? [],
    requires: target.bootstrap.requires,
  };
}

async function launch(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
  const { launches } = await readLaunch(directory);
  for (const path of workloadDirectories(directory)) await mkdir(path, { recursive: true, mode: 0o700 });
  await rm(join(directory, files.agent_ended), { force: true });
  await writeRecord(join(directory, files.agent_config), agentConfig(target, directory));
  await writeRecord(join(directory, files.launch), { launches: launches + 1, pid: null, start: null });
  const pid = await spawnAgent(host, target, directory).catch(async (error: unknown) => {
    // The process never ran, so this try does not count as a launch.
    await writeRecord(join(directory, files.launch), { launches, pid: null, start: null });
    throw error;
  });
  const start = host.processes.startOf(pid);
  const launcher = { pid: process.pid, start: host.processes.startOf(process.pid) };
  await writeRecord(join(directory, files.launch), { launches: launches + 1, pid, start, launcher });
  host.log('agent process launched', { ...idsOf(target), pid, launches: launches + 1 });
  return {
    outcome: 'done',
    message: `agent process ${pid} runs on host ${host.host_id}`,
    state: { host_id: host.host_id, directory, pid, launched_at: now(host.clock).toISOString() },
  };
}

const spawnAgent = (host: LocalHost, target: EnsureTarget, directory: string) =>
  spawnDetached({
    argv: [...host.agent_command, '--config', join(directory, files.agent_config)],
    cwd: directory,
    env: environmentOf(host, target, directory),
    output: join(directory, files.agent_output),
    onExit(pid, code, signal) {
      const ended = { pid, code, signal, at: now(host.clock).toISOString() };
      host.log('agent process ended', { ...idsOf(target), ...ended });
      recordEnd(host, target, directory, ended);
    },
  });

/** Only the launcher receives the exit code, so it records the code for later server processes. */
function recordEnd(host: LocalHost, target: EnsureTarget, directory: string, ended: object): void {
  try {
    writeFileSync(join(directory, files.agent_ended), JSON.stringify(ended), { flag: 'wx', mode: 0o600 });
  } catch (error) {
    // The directory was removed or a record exists, so no record is needed. Other errors, such as a
    // full disk, must not crash the server.
    if (['ENOENT', 'EEXIST'].includes(errorCode(error) ?? '')) return;
    host.log('could not record the end of an agent process', { ...idsOf(target), error: String(error) });
  }
}

const max_launches = 3;
const poll_seconds = 0.1;

export async function ensure(host: LocalHost, target: EnsureTarget): Promise<DriverOutcome> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const outcome = await withLock(lockName(target), () => ensureLocked(host, target, directory));
  return (
    outcome ?? { outcome: 'wait', retry_seconds: poll_seconds, message: 'another process is launching this machine' }
  );
}

async function ensureLocked(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
  // Only the last directory is made private: others below /var/lib/slipway may belong to other
  // accounts.
  makeDirectory(dirname(host.nodes_dir), 0o711);
  makeDirectory(host.nodes_dir, 0o700);
  const origin = await ensureDirectory(directory, target);
  if (origin === 'foreign') return foreignDirectoryFailure(directory);
  // A new directory has no processes, so a normal launch does not scan for them.
  if (origin === 'created') return launchOrFail(host, target, directory);

  const { agent, all } = await host.processes.find(target);
  if (agent) {
    return {
      outcome: 'done',
      message: `agent process ${agent.pid} runs on host ${host.host_id}`,
      state: { ...target.state, host_id: host.host_id, directory, pid: agent.pid },
    };
  }
  const { launches, launcher } = await readLaunch(directory);
  // Check the launcher before reading the record: a launcher that has ended writes no record any
  // more.
  const may_be_recorded = launcher !== null && host.processes.startOf(launcher.pid) === launcher.start;
  const end = await readAgentEnd(directory);
  if (end?.would_end_again) return agentExitedFailure(directory, end.summary);
  if (!end && may_be_recorded) {
    return {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: `the agent process has ended; server process ${launcher.pid}, which launched it, has not recorded the exit code yet`,
    };
  }
  if (launches >= max_launches)
    return agentExitedFailure(directory, `the agent process ended without an exit code ${launches} times`);
  if (all.length > 0) {
    host.processes.signal(all, 'SIGKILL');
    return {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: `killing ${all.length} remaining processes of an agent that was killed`,
    };
  }
  return launchOrFail(host, target, directory);
}

async function launchOrFail(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
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

async function agentExitedFailure(directory: string, summary: string): Promise<DriverFailure> {
  const lines = await readLastLines(join(directory, files.agent_output), 5);
  return {
    outcome: 'failed',
    owner_layer: 'node',
    code: 'agent_exited',
    message: lines ? `${summary}\n${lines}` : summary,
    retryable: false,
  };
}

export function foreignDirectoryFailure(directory: string): DriverFailure {
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: 'directory_of_another',
    message: `${directory} has the marker of another installation or instance; it was not touched`,
    retryable: false,
  };
}
