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

const everyPid = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

export const findTaggedProcesses = (installation_id: string): TaggedProcess[] =>
  taggedAmong(installation_id, everyPid());

function taggedAmong(installation_id: string, pids: string[]): TaggedProcess[] {
  const found = pids.flatMap((pid) => {
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

/** A process gets its tags when it becomes its program, at once after it was made: who has none by then never will. */
const maxLooksAtUntagged = 40;

/**
 * Looks again and again, so that a second process of one instance is seen even when it lives shortly. Most that run here are
 * strangers, and to read what each carries takes a tenth of a processor: they are soon passed over.
 */
export function watchLaunches(installation_id: string, every_ms = 50): LaunchWatch {
  const seen = new Map<string, Set<number>>();
  let strangers = new Map<string, number>();
  const look = () => {
    const running = everyPid();
    const tagged = taggedAmong(
      installation_id,
      running.filter((pid) => (strangers.get(pid) ?? 0) < maxLooksAtUntagged),
    );
    const ours = new Set(tagged.map(({ pid }) => String(pid)));
    // Whoever has ended is forgotten, and with it its number.
    strangers = new Map(running.filter((pid) => !ours.has(pid)).map((pid) => [pid, (strangers.get(pid) ?? 0) + 1]));
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

/** Gone meanwhile, or not ours to look at: both are as good as ended. */
function ignoreMissing(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
  }
}

/** Ends what an installation runs, or one instance of it. Much of that lives shortly, and may have ended since it was seen. */
export function killTagged(installation_id: string, node_instance_id?: string | null): void {
  for (const each of findTaggedProcesses(installation_id))
    if (node_instance_id === undefined || each.node_instance_id === node_instance_id)
      ignoreMissing(() => process.kill(each.pid, 'SIGKILL'));
}

/** Ends whatever still works in a test's own directory, so that a failed test leaves no machines behind. */
export function killProcessesIn(directory: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    ignoreMissing(() => {
      if (readlinkSync(`/proc/${pid}/cwd`).startsWith(`${directory}/`)) process.kill(Number(pid), 'SIGKILL');
    });
}
