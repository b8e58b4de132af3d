/**
 * Finds the processes on this host that have an installation's tags. Reads /proc only, so that a
 * process without a row in the database is found too.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

export interface TaggedProcess {
  pid: number;
  node_instance_id: string;
  /** True for the node's agent, false for a process that the agent started. */
  agent: boolean;
}

/** A process may exit while it is read, or belong to another user; both count as not found. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

const parentOf = (pid: string): number =>
  Number(
    readOrEmpty(`/proc/${pid}/stat`)
      .replace(/^.*\) /s, '')
      .split(' ')[1],
  );

const everyPid = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

export const findTaggedProcesses = (installation_id: string): TaggedProcess[] =>
  filterTagged(installation_id, everyPid());

function filterTagged(installation_id: string, pids: string[]): TaggedProcess[] {
  const processes = pids.flatMap((pid) => {
    const environment = readOrEmpty(`/proc/${pid}/environ`).split('\0');
    if (!environment.includes(`SLIPWAY_INSTALLATION_ID=${installation_id}`)) return [];
    const tag = environment.find((entry) => entry.startsWith('SLIPWAY_NODE_INSTANCE_ID=')) ?? '';
    const argv = readOrEmpty(`/proc/${pid}/cmdline`).split('\0');
    const node_instance_id = tag.slice(tag.indexOf('=') + 1);
    return [{ pid: Number(pid), parent: parentOf(pid), node_instance_id, agent: argv.includes('--config') }];
  });
  // A process that the agent just forked looks like the agent until it calls exec.
  const taggedPids = new Set(processes.map(({ pid }) => pid));
  return processes.map(({ parent, ...process }) => ({ ...process, agent: process.agent && !taggedPids.has(parent) }));
}

export interface LaunchWatch {
  /** Every agent process seen so far, by instance. */
  agents(): Map<string, Set<number>>;
  stop(): void;
}

/**
 * A process gets its tags by exec, right after its fork. A process without tags after this many
 * scans never gets any.
 */
const maxScansOfUntagged = 40;

/**
 * Polls for agent processes, so that a short-lived second process of one instance is found too.
 * Reading the environment of every process would take a tenth of a CPU, so untagged processes are
 * skipped after `maxScansOfUntagged` scans.
 */
export function watchLaunches(installation_id: string, every_ms = 50): LaunchWatch {
  const seenPids = new Map<string, Set<number>>();
  let untaggedScans = new Map<string, number>();
  const scan = () => {
    const runningPids = everyPid();
    const taggedProcesses = filterTagged(
      installation_id,
      runningPids.filter((pid) => (untaggedScans.get(pid) ?? 0) < maxScansOfUntagged),
    );
    const taggedPids = new Set(taggedProcesses.map(({ pid }) => String(pid)));
    // Forgets exited processes, because their pids may be reused.
    untaggedScans = new Map(
      runningPids.filter((pid) => !taggedPids.has(pid)).map((pid) => [pid, (untaggedScans.get(pid) ?? 0) + 1]),
    );
    for (const { pid, node_instance_id, agent } of taggedProcesses) {
      if (!agent) continue;
      const pids = seenPids.get(node_instance_id) ?? new Set();
      seenPids.set(node_instance_id, pids.add(pid));
    }
  };
  scan();
  const timer = setInterval(scan, every_ms);
  return { agents: () => seenPids, stop: () => clearInterval(timer) };
}

/** Ignores a process that has exited or belongs to another user. */
function ignoreMissing(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
  }
}

/** Kills the processes of an installation, or those of one of its instances. */
export function killTagged(installation_id: string, node_instance_id?: string | null): void {
  for (const each of findTaggedProcesses(installation_id))
    if (node_instance_id === undefined || each.node_instance_id === node_instance_id)
      ignoreMissing(() => process.kill(each.pid, 'SIGKILL'));
}

/**
 * Kills every process that runs in a test's directory, so that a failed test leaves no machines
 * behind.
 */
export function killProcessesIn(directory: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    ignoreMissing(() => {
      if (readlinkSync(`/proc/${pid}/cwd`).startsWith(`${directory}/`)) process.kill(Number(pid), 'SIGKILL');
    });
}
