/** The processes of this host that carry an installation's tags: what it really runs, whatever its rows say. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

export interface TaggedProcess {
  pid: number;
  node_instance_id: string;
  /** The node's agent itself, not something it started. */
  agent: boolean;
}

/** A process may end, or belong to somebody else, while it is looked at; then there is nothing of ours to see. */
function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

const parentOf = (pid: string): number =>
  Number(
    readOrNothing(`/proc/${pid}/stat`)
      .replace(/^.*\) /s, '')
      .split(' ')[1],
  );

export function taggedProcesses(installation_id: string): TaggedProcess[] {
  const found = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      const environment = readOrNothing(`/proc/${pid}/environ`).split('\0');
      if (!environment.includes(`SLIPWAY_INSTALLATION_ID=${installation_id}`)) return [];
      const tag = environment.find((entry) => entry.startsWith('SLIPWAY_NODE_INSTANCE_ID=')) ?? '';
      const argv = readOrNothing(`/proc/${pid}/cmdline`).split('\0');
      const node_instance_id = tag.slice(tag.indexOf('=') + 1);
      return [{ pid: Number(pid), parent: parentOf(pid), node_instance_id, agent: argv.includes('--config') }];
    });
  // What an agent starts looks like the agent itself for a moment, until it has become the new program.
  const ours = new Set(found.map(({ pid }) => pid));
  return found.map(({ parent, ...process }) => ({ ...process, agent: process.agent && !ours.has(parent) }));
}

export interface LaunchWatch {
  /** Every agent process ever seen, by instance. */
  agents(): Map<string, Set<number>>;
  stop(): void;
}

/** Looks again and again, so that a second process of one instance is seen even when it lives shortly. */
export function watchLaunches(installation_id: string, every_ms = 50): LaunchWatch {
  const seen = new Map<string, Set<number>>();
  const look = () => {
    for (const { pid, node_instance_id, agent } of taggedProcesses(installation_id)) {
      if (!agent) continue;
      const pids = seen.get(node_instance_id) ?? new Set();
      seen.set(node_instance_id, pids.add(pid));
    }
  };
  look();
  const timer = setInterval(look, every_ms);
  return { agents: () => seen, stop: () => clearInterval(timer) };
}

/** Gone meanwhile, or not ours to look at: both are as good as ended. */
function whileItIsThere(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
  }
}

/** Ends what an installation runs, or one instance of it. Much of that lives shortly, and may have ended since it was seen. */
export function endTagged(installation_id: string, node_instance_id?: string | null): void {
  for (const each of taggedProcesses(installation_id))
    if (node_instance_id === undefined || each.node_instance_id === node_instance_id)
      whileItIsThere(() => process.kill(each.pid, 'SIGKILL'));
}

/** Ends whatever still works in a test's own directory, so that a failed test leaves no machines behind. */
export function endProcessesIn(directory: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    whileItIsThere(() => {
      if (readlinkSync(`/proc/${pid}/cwd`).startsWith(`${directory}/`)) process.kill(Number(pid), 'SIGKILL');
    });
}
