/**
 * Ends an instance: gracefully (`stop`), at once (`abort`), or with everything it has (`destroy`).
 */
import type { DriverOutcome, DriverTarget } from '../driver.ts';
import { ofAnother } from './ensure.ts';
import { exclusively } from './files/exclusive.ts';
import { directoryOf, removeDirectory } from './files/node-directory.ts';
import { type LocalHost, lockName } from './local-host.ts';
import type { InstanceProcesses } from './processes/instance-processes.ts';

const soon_seconds = 0.1;

const pidsOf = ({ all }: InstanceProcesses) => all.map(({ pid }) => pid).join(', ');

/**
 * Signals the agent first, which stops its command. Processes left after it are sent SIGTERM once;
 * what is left at the end of the grace period, counted from the first signal, is killed.
 */
export async function stop(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  const found = await host.processes.of(target);
  if (found.all.length === 0) return { outcome: 'done', message: 'no process of this instance runs' };

  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms, stragglers_asked } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const wait = (message: string, signalled: { stragglers_asked: boolean }): DriverOutcome => ({
    outcome: 'wait',
    retry_seconds: soon_seconds,
    message: `${message} (${pidsOf(found)})`,
    state: { ...target.state, host_id: host.host_id, stop_asked_at_ms: asked_at_ms ?? now_ms, ...signalled },
  });

  if (asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000) {
    host.processes.signal(found.all, 'SIGKILL');
    return wait('killing what did not stop in time', { stragglers_asked: true });
  }
  if (found.agent) {
    if (asked_at_ms === null) host.processes.signal([found.agent], 'SIGTERM');
    return wait('the agent is stopping', { stragglers_asked: false });
  }
  if (stragglers_asked !== true) host.processes.signal(found.all, 'SIGTERM');
  return wait('the agent has gone, its processes are stopping', { stragglers_asked: true });
}

/**
 * Kills and checks again at once, so that one call is usually enough. Returns null if nothing is
 * left.
 */
async function killAll(host: LocalHost, target: DriverTarget): Promise<DriverOutcome | null> {
  const found = await host.processes.of(target);
  if (found.all.length === 0) return null;
  host.processes.signal(found.all, 'SIGKILL');
  const left = await host.processes.of(target);
  if (left.all.length === 0) return null;
  return { outcome: 'wait', retry_seconds: soon_seconds, message: `killed, not gone yet: ${pidsOf(left)}` };
}

/** A launch ends with its call, so there is nothing to abort but what it started. */
export async function abort(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  return (await killAll(host, target)) ?? { outcome: 'done', message: 'no process of this instance runs' };
}

export async function destroy(host: LocalHost, target: DriverTarget): Promise<DriverOutcome> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const outcome = await exclusively(lockName(target), () => destroyAlone(host, target, directory));
  return (
    outcome ?? { outcome: 'wait', retry_seconds: soon_seconds, message: 'another process is working on this machine' }
  );
}

async function destroyAlone(host: LocalHost, target: DriverTarget, directory: string): Promise<DriverOutcome> {
  const alive = await killAll(host, target);
  if (alive) return alive;
  const removal = await removeDirectory(directory, target);
  if (removal === 'of_another') return ofAnother(directory);
  if (removal === 'written_meanwhile') {
    return {
      outcome: 'wait',
      retry_seconds: soon_seconds,
      message: `${directory} was written to while it was removed`,
    };
  }
  return { outcome: 'done', message: `processes ended, ${directory} removed` };
}
