/**
 * Ends an instance: gracefully (`stop`), at once (`abort`), or with everything it has (`destroy`).
 * Never waits for the engine.
 */
import type { DriverDone, DriverOutcome, DriverTarget } from '../driver.ts';
import { type DockerHost, ownAnywhere, type Placed } from './docker-host.ts';

const soon_seconds = 0.2;

const isUp = ({ row }: Placed) => ['running', 'paused', 'restarting', 'stopping'].includes(row.state);
const namesOf = (found: Placed[]) => found.map(({ row }) => row.id.slice(0, 12)).join(', ');
const nothingRuns: DriverDone = { outcome: 'done', message: 'no container of this instance runs' };

/**
 * SIGTERM lets the agent stop its command; what still runs at the end of the grace period, counted
 * from the first signal, is killed.
 */
export async function stop(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  const up = (await ownAnywhere(host, target)).found.filter(isUp);
  if (up.length === 0) return nothingRuns;
  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const late = asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000;
  if (asked_at_ms === null || late)
    await Promise.all(up.map(({ engine, row }) => engine.kill(row.id, late ? 'SIGKILL' : 'SIGTERM')));
  return {
    outcome: 'wait',
    retry_seconds: soon_seconds,
    message: `${late ? 'killing what did not stop in time' : 'the agent is stopping'} (${namesOf(up)})`,
    state: { ...target.state, stop_asked_at_ms: asked_at_ms ?? now_ms },
  };
}

/** Ends what was started for the instance; `destroy` removes what is left. */
export async function abort(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  host.pulls.forget(target.node_instance_id);
  const up = (await ownAnywhere(host, target)).found.filter(isUp);
  if (up.length === 0) return nothingRuns;
  await Promise.all(up.map(({ engine, row }) => engine.kill(row.id, 'SIGKILL')));
  return { outcome: 'wait', retry_seconds: soon_seconds, message: `killed, not gone yet: ${namesOf(up)}` };
}

/** The container's files go with the container. Files on a mount belong to the pool. */
export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'what was written in the container goes with it',
});

export async function destroy(host: DockerHost, target: DriverTarget): Promise<DriverOutcome> {
  host.pulls.forget(target.node_instance_id);
  const { found } = await ownAnywhere(host, target);
  if (found.length === 0) return { outcome: 'done', message: 'no container of this instance exists' };
  await Promise.all(found.map(({ engine, row }) => engine.remove(row.id)));
  const { found: left } = await ownAnywhere(host, target);
  if (left.length === 0) return { outcome: 'done', message: `container ${namesOf(found)} removed` };
  return { outcome: 'wait', retry_seconds: soon_seconds, message: `being removed: ${namesOf(left)}` };
}
