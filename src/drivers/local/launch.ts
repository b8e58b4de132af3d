/** Launches an instance's agent and records how it ended, if the launcher still runs by then. */

import { writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { now } from '../../base/clock.ts';
import { agentIdentity } from '../agent-config.ts';
import type { DriverOutcome, EnsureTarget } from '../driver.ts';
import { launchEnv } from '../workload-spec.ts';
import { readLaunch } from './files/launch-record.ts';
import { files } from './files/node-directory.ts';
import { writeRecord } from './files/small-file.ts';
import { errorCode } from './host-failure.ts';
import { environmentOf, idsOf, type LocalHost } from './local-host.ts';
import { spawnDetached } from './processes/spawn-detached.ts';
import { localSpec } from './spec.ts';

/**
 * Everything that the workload writes to by default: its working directory, `HOME` and `TMPDIR`.
 */
const workloadDirectories = (directory: string) => [files.temporary, files.work].map((name) => join(directory, name));

/** Anything else in the directory was left by the workload. */
const keptWithInstance = [
  files.marker,
  files.agent_config,
  files.agent_output,
  files.launch,
  files.temporary,
  files.work,
];

function agentConfig(target: EnsureTarget, directory: string) {
  const spec = localSpec(target.spec);
  return {
    ...agentIdentity(target),
    dir: directory,
    work_dir: join(directory, files.work),
    workload_dirs: workloadDirectories(directory),
    dir_keeps: keptWithInstance,
    output_file: join(directory, files.agent_output),
    setup: spec.setup ?? null,
    command: spec.command ?? null,
    clean: spec.clean ?? null,
    env: launchEnv(spec.env),
    boot_stages: spec.boot_stages ?? [],
    requires: target.bootstrap.requires,
  };
}

export async function launch(host: LocalHost, target: EnsureTarget, directory: string): Promise<DriverOutcome> {
  const { launches } = await readLaunch(directory);
  for (const each of workloadDirectories(directory)) await mkdir(each, { recursive: true, mode: 0o700 });
  await rm(join(directory, files.agent_ended), { force: true });
  await writeRecord(join(directory, files.agent_config), agentConfig(target, directory));
  await writeRecord(join(directory, files.launch), { launches: launches + 1, pid: null, start: null });
  const pid = await spawnAgent(host, target, directory).catch(async (error: unknown) => {
    // A process that never ran does not count: only agents that ran and vanished use up launches.
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

/** Only the launcher learns the exit code, so it is written where every later server finds it. */
function recordEnd(host: LocalHost, target: EnsureTarget, directory: string, ended: object): void {
  try {
    writeFileSync(join(directory, files.agent_ended), JSON.stringify(ended), { flag: 'wx', mode: 0o600 });
  } catch (error) {
    // Already destroyed, or replaced: no longer needed. A full disk costs the diagnosis a line, and
    // must not crash the server.
    if (['ENOENT', 'EEXIST'].includes(errorCode(error) ?? '')) return;
    host.log('could not record the end of an agent process', { ...idsOf(target), error: String(error) });
  }
}
