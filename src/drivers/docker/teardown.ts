/**
 * Ends an instance: gracefully (`stop`), at once (`abort`), or by removing its containers
 * (`destroy`). No call waits until a container has ended; the caller polls.
 */
import type { DriverDone, DriverOutcome, DriverTarget } from '../driver.ts';
import { type DockerHost, findInstance, type PlacedContainer } from './docker-host.ts';

const poll_seconds = 0.2;

const isUp = ({ row }: PlacedContainer) => ['running', 'paused', 'restarting', 'stopping'].includes(row.state);
const idsOf = (containers: PlacedContainer[]) => containers.map(({ row }) => row.id.slice(0, 12)).join(', ');
const nothingIsRunning: DriverDone = { outcome: 'done', message: 'no container of this instance runs' };

/**
 * Sends SIGTERM, so that the agent stops its command. Kills containers that still run when the
 * grace period, counted from the first signal, is over.
 */
export async function stop(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  const running = (await findInstance(host, target)).containers.filter(isUp);
  if (running.length === 0) return nothingIsRunning;
  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const isGraceOver = asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000;
  if (asked_at_ms === null || isGraceOver)
    await Promise.all(running.map(({ engine, row }) => engine.kill(row.id, isGraceOver ? 'SIGKILL' : 'SIGTERM')));
  return {
    outcome: 'wait',
    retry_seconds: poll_seconds,
    message: `${isGraceOver ? 'killing containers that did not stop in time' : 'the agent is stopping'} (${idsOf(running)})`,
    state: { ...target.state, stop_asked_at_ms: asked_at_ms ?? now_ms },
  };
}

/** Kills the instance's containers; `destroy` removes them. */
export async function abort(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  host.pulls.stopWaiting(target.node_instance_id);
  const running = (await findInstance(host, target)).containers.filter(isUp);
  if (running.length === 0) return nothingIsRunning;
  await Promise.all(running.map(({ engine, row }) => engine.kill(row.id, 'SIGKILL')));
  return { outcome: 'wait', retry_seconds: poll_seconds, message: `killed, still ending: ${idsOf(running)}` };
}

/** Removing the container removes its files. Files on a mount belong to the pool. */
export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: "the container's files are removed with the container",
});

export async function destroy(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  host.pulls.stopWaiting(target.node_instance_id);
  const { containers } = await findInstance(host, target);
  if (containers.length === 0) return { outcome: 'done', message: 'no container of this instance exists' };
  await Promise.all(containers.map(({ engine, row }) => engine.remove(row.id)));
  const { containers: remaining } = await findInstance(host, target);
  if (remaining.length === 0) return { outcome: 'done', message: `container ${idsOf(containers)} removed` };
  return { outcome: 'wait', retry_seconds: poll_seconds, message: `being removed: ${idsOf(remaining)}` };
}
