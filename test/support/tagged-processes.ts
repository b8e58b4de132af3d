/**
 * Finds the processes of this host that carry an installation's tags, whatever the database says.
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
  taggedAmong(installation_id, everyPid());

function taggedAmong(installation_id: string, pids: string[]): TaggedProcess[] {
  const found = pids.flatMap((pid) => {
    const environment = readOrEmpty(`/proc/${pid}/environ`).split('\0');
    if (!environment.includes(`SLIPWAY_INSTALLATION_ID=${installation_id}`)) return [];
    const tag = environment.find((entry) => entry.startsWith('SLIPWAY_NODE_INSTANCE_ID=')) ?? '';
    const argv = readOrEmpty(`/proc/${pid}/cmdline`).split('\0');
    const node_instance_id = tag.slice(tag.indexOf('=') + 1);
    return [{ pid: Number(pid), parent: parentOf(pid), node_instance_id, agent: argv.includes('--config') }];
  });
  // A process that the agent just forked looks like the agent until it calls exec.
  const ours = new Set(found.map(({ pid }) => pid));
  return found.map(({ parent, ...process }) => ({ ...process, agent: process.agent && !ours.has(parent) }));
}

export interface LaunchWatch {
  /** Every agent process seen so far, by instance. */
  agents(): Map<string, Set<number>>;
  stop(): void;
}

/**
 * A process gets its tags by exec, right after its fork. One that has none after this many looks
 * never will.
 */
const maxLooksAtUntagged = 40;

/**
 * Polls for agent processes, so that a short-lived second process of one instance is seen too.
 * Reading the environment of every process would take a tenth of a CPU, so untagged ones are soon
 * skipped.
 */
export function watchLaunches(installation_id: string, every_ms = 50): LaunchWatch {
  const seen = new Map<string, Set<number>>();
  let untagged = new Map<string, number>();
  const look = () => {
    const running = everyPid();
    const tagged = taggedAmong(
      installation_id,
      running.filter((pid) => (untagged.get(pid) ?? 0) < maxLooksAtUntagged),
    );
    const ours = new Set(tagged.map(({ pid }) => String(pid)));
    // Drops the exited ones, because their pids may be reused.
    untagged = new Map(running.filter((pid) => !ours.has(pid)).map((pid) => [pid, (untagged.get(pid) ?? 0) + 1]));
    for (const { pid, node_instance_id, agent } of tagged) {
      if (!agent) continue;
      const pids = seen.get(node_instance_id) ?? new Set();
      seen.set(node_instance_id, pids.add(pid));
    }
  };
  look();
  const timer = setInterval(look, every_ms);
  return { agents: () => seen, stop: () => clearInterval(timer) };
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
