/** Ends an instance: gracefully (`stop`), at once (`abort`), or with its directory (`destroy`). */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describeScriptEnd } from '../../base/files/pool-scripts.ts';
import { readKind } from '../../base/files/remove-tree.ts';
import { referencesIn } from '../../contract/pool-fields/references.ts';
import type { DriverFailure, DriverOutcome, DriverTarget } from '../driver.ts';
import { literalEnv } from '../workload-spec.ts';
import { readLastLines } from './agent-end.ts';
import { foreignDirectoryFailure } from './ensure.ts';
import { withLock } from './files/exclusive.ts';
import { directoryOf, files, removeDirectory } from './files/node-directory.ts';
import { readRecord, readTail, writeAtomically, writeRecord } from './files/small-file.ts';
import { environmentOf, type LocalHost, lockName } from './local-host.ts';
import type { InstanceProcesses } from './processes/instance-processes.ts';
import type { ProcessRow } from './processes/procfs.ts';
import { spawnDetached } from './processes/spawn-detached.ts';
import { localSpec } from './spec.ts';

const poll_seconds = 0.1;

const pidsOf = ({ all }: InstanceProcesses) => all.map(({ pid }) => pid).join(', ');

/**
 * Sends SIGINT to the agent, which stops its command; at SIGTERM it would leave the command
 * running. Processes that outlive the agent get SIGTERM once. Processes that still run when the
 * grace period, counted from the first signal, is over are killed.
 */
export async function stop(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  const found = await host.processes.find(target);
  if (found.all.length === 0) return { outcome: 'done', message: 'no process of this instance runs' };

  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms, stragglers_asked } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const wait = (message: string, signalled: { stragglers_asked: boolean }): DriverOutcome => ({
    outcome: 'wait',
    retry_seconds: poll_seconds,
    message: `${message} (${pidsOf(found)})`,
    state: { ...target.state, host_id: host.host_id, stop_asked_at_ms: asked_at_ms ?? now_ms, ...signalled },
  });

  if (asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000) {
    host.processes.signal(found.all, 'SIGKILL');
    return wait('killing processes that did not stop in time', { stragglers_asked: true });
  }
  if (found.agent) {
    if (asked_at_ms === null) host.processes.signal([found.agent], 'SIGINT');
    return wait('the agent is stopping', { stragglers_asked: false });
  }
  if (stragglers_asked !== true) host.processes.signal(found.all, 'SIGTERM');
  return wait('the agent has ended, its processes are stopping', { stragglers_asked: true });
}

/** Kills and checks again at once, so that one call is usually enough. Returns null on success. */
async function killAll(host: LocalHost, target: DriverTarget): Promise<DriverOutcome | null> {
  const found = await host.processes.find(target);
  if (found.all.length === 0) return null;
  host.processes.signal(found.all, 'SIGKILL');
  const survivors = await host.processes.find(target);
  if (survivors.all.length === 0) return null;
  return { outcome: 'wait', retry_seconds: poll_seconds, message: `killed, still ending: ${pidsOf(survivors)}` };
}

/** No launch continues after its call has returned, so it is enough to end the processes. */
export async function abort(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  return (await killAll(host, target)) ?? { outcome: 'done', message: 'no process of this instance runs' };
}

export async function destroy(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const outcome = await withLock(lockName(target), () => destroyLocked(host, target, directory));
  return (
    outcome ?? { outcome: 'wait', retry_seconds: poll_seconds, message: 'another process is working on this machine' }
  );
}

async function destroyLocked(host: LocalHost, target: DriverTarget, directory: string): Promise<DriverOutcome> {
  const waitForEnd = await killAll(host, target);
  if (waitForEnd) return waitForEnd;
  const removal = await removeDirectory(directory, target);
  if (removal === 'foreign') return foreignDirectoryFailure(directory);
  if (removal === 'refilled') {
    return {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: `${directory} was written to while it was removed`,
    };
  }
  return { outcome: 'done', message: `processes ended, ${directory} removed` };
}

/** Argument 0 of the shell, by which it is found among the instance's processes. */
const shellName = 'slipway-clean';
const shellText = [
  `/bin/sh "$1/${files.clean_script}"`,
  `echo $? >"$1/${files.clean_status}.new" && mv "$1/${files.clean_status}.new" "$1/${files.clean_status}"`,
].join('\n');

/**
 * Runs the pool's `clean` in the node's directory once per operation, unless the agent has done so.
 * A detached shell runs the script and writes its exit code to a file. So a later call, even after
 * a crash, can tell whether the script is running, has finished or was killed.
 */
export async function clean(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  const script = localSpec(target.spec).clean;
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  if (!script) return { outcome: 'done', message: 'the pool has nothing to clean' };
  if ((await readKind(directory)) === 'absent') return { outcome: 'done', message: 'the directory does not exist' };
  const outcome = await withLock(lockName(target), () => cleanLocked(host, target, directory, script));
  return (
    outcome ?? {
      outcome: 'wait',
      retry_seconds: poll_seconds,
      message: 'another process is working on this machine',
    }
  );
}

async function cleanLocked(
  host: LocalHost,
  target: DriverTarget,
  directory: string,
  script: string,
): Promise<DriverOutcome> {
  const cleaned = join(directory, files.cleaned);
  // Only a clean by this operation counts, because the machine may have been used since an
  // earlier one.
  if (await isFromOperation(target, cleaned)) return { outcome: 'done', message: 'already cleaned' };

  // Look for the shell before reading its status. The shell writes the status before it exits, so
  // without shell and status it was killed.
  const { all } = await host.processes.find(target);
  const shell = all.find(isCleanShell);
  if (shell)
    return runningOutcome(
      host,
      directory,
      all.filter((row) => row.session === shell.session),
    );
  const isOwnRun = await isFromOperation(target, join(directory, files.clean_run));
  const status = isOwnRun ? await readTail(join(directory, files.clean_status), 16) : null;
  if (status !== null) {
    // Remove the status, so that a call after a failure runs the script again.
    if (status.trim() === '0') await writeRecord(cleaned, { workflow_id: target.workflow_id });
    await rm(join(directory, files.clean_status));
    if (status.trim() === '0') return { outcome: 'done', message: 'cleaned' };
    return readCleanFailure(directory, 'clean_failed', `exited with code ${status.trim()}`);
  }
  await startClean(host, target, directory, script);
  return { outcome: 'wait', retry_seconds: poll_seconds, message: 'clean has started' };
}

/** Whether the calling operation wrote the record, in any of its tries. */
const isFromOperation = async ({ workflow_id }: DriverTarget, record: string): Promise<boolean> =>
  (await readRecord(record))?.workflow_id === workflow_id;

const isCleanShell = (row: ProcessRow) => row.argv[3] === shellName;

async function startClean(host: LocalHost, target: DriverTarget, directory: string, script: string): Promise<void> {
  await writeAtomically(join(directory, files.clean_script), script);
  for (const name of [files.clean_output, files.clean_status]) await rm(join(directory, name), { force: true });
  const { workflow_id } = target;
  await writeRecord(join(directory, files.clean_run), { workflow_id, started_at_ms: host.clock.nowMs() });
  // The workload may have removed its own working directory.
  await mkdir(join(directory, files.work), { recursive: true, mode: 0o700 });
  await spawnDetached({
    argv: ['/bin/sh', '-c', shellText, shellName, directory],
    cwd: join(directory, files.work),
    env: environmentOf(host, target, directory, await cleanEnv(target, directory)),
    output: join(directory, files.clean_output),
  });
}

/** Secrets are resolved only at launch, so their values come from the agent's configuration. */
async function cleanEnv({ spec }: DriverTarget, directory: string): Promise<Record<string, string>> {
  const { env = {} } = localSpec(spec);
  const secretNames = new Set(referencesIn({ env }).map(({ variable }) => variable));
  if (secretNames.size === 0) return literalEnv(env);
  const launchEnv = (await readRecord(join(directory, files.agent_config)))?.env;
  const secretEntries = Object.entries(typeof launchEnv === 'object' && launchEnv !== null ? launchEnv : {}).filter(
    (entry): entry is [string, string] => secretNames.has(entry[0]) && typeof entry[1] === 'string',
  );
  return { ...literalEnv(env), ...Object.fromEntries(secretEntries) };
}

async function runningOutcome(host: LocalHost, directory: string, run: ProcessRow[]): Promise<DriverOutcome> {
  const record = await readRecord(join(directory, files.clean_run));
  const started_at_ms = typeof record?.started_at_ms === 'number' ? record.started_at_ms : host.clock.nowMs();
  const seconds = (host.clock.nowMs() - started_at_ms) / 1000;
  if (seconds < host.clean_timeout_seconds) {
    return { outcome: 'wait', retry_seconds: poll_seconds, message: 'clean is running' };
  }
  host.processes.signal(run, 'SIGKILL');
  return readCleanFailure(directory, 'clean_timed_out', `was killed after ${host.clean_timeout_seconds} s`);
}

async function readCleanFailure(directory: string, code: string, ending: string): Promise<DriverFailure> {
  const lines = await readLastLines(join(directory, files.clean_output), 5);
  return {
    outcome: 'failed',
    owner_layer: 'node',
    code,
    message: describeScriptEnd('clean', ending, lines.split('\n')),
    retryable: true,
  };
}
