/**
 * Ends an instance: gracefully (`stop`), at once (`abort`), or with everything it has (`destroy`).
 * Never waits for the provider.
 */
import type { DriverDone, DriverOutcome, DriverTarget } from '../driver.ts';
import type { Cloud, PartRow } from './cloud.ts';
import { cannotBeStopped } from './cloud-error.ts';
import {
  disownedFailure,
  type Ec2Host,
  hasEnded,
  namesOf,
  notTerminated,
  ownAnywhere,
  type Placed,
  settlingWait,
} from './ec2-host.ts';
import { carries, instanceTags } from './tags.ts';

const nothingRuns: DriverDone = { outcome: 'done', message: 'no machine of this instance runs' };

const byCloud = (found: Placed[]): [Cloud, string[]][] =>
  [...Map.groupBy(found, ({ cloud }) => cloud)].map(([cloud, those]) => [cloud, those.map(({ row }) => row.id)]);

const terminate = (found: Placed[]) => Promise.all(byCloud(found).map(([cloud, ids]) => cloud.terminate(ids)));

/** A machine that cannot be stopped (spot, or without a persistent disk) is terminated instead. */
async function stopOrEnd(found: Placed[], force: boolean): Promise<void> {
  await Promise.all(
    byCloud(found).map(async ([cloud, ids]) => {
      try {
        await cloud.stop(ids, force);
      } catch (error) {
        if (!cannotBeStopped(error)) throw error;
        await cloud.terminate(ids);
      }
    }),
  );
}

/**
 * Shuts the machine down, so that its agent stops its command; what still runs at the end of the
 * grace period, counted from the first request, is forced off.
 */
export async function stop(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { found, settling } = await ownAnywhere(host, target);
  if (settling) return settlingWait;
  const up = found.filter((placed) => !hasEnded(placed) && placed.row.state !== 'stopped');
  if (up.length === 0) return nothingRuns;
  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const late = asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000;
  // A pending machine cannot be stopped yet, and a stopping one was stopped already.
  const ready = up.filter(({ row }) => row.state === 'running' || late);
  if (ready.length > 0) await stopOrEnd(ready, late);
  return {
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message: `${late ? 'cutting off what did not stop in time' : 'the machine is shutting down'} (${namesOf(up)})`,
    state: { ...target.state, stop_asked_at_ms: asked_at_ms ?? now_ms },
  };
}

/** Ends what was started for the instance; `destroy` removes what is left. */
export async function abort(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { found, settling } = await ownAnywhere(host, target);
  if (settling) return settlingWait;
  const living = found.filter((placed) => !hasEnded(placed));
  if (living.length === 0) return nothingRuns;
  await terminate(living);
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being terminated: ${namesOf(living)}` };
}

/** Files of the workload go with the machine's volumes. */
export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: 'what was written on the machine goes with its volumes',
});

/** An attached volume or interface goes with its machine in a moment. */
async function removeParts(host: Ec2Host, target: DriverTarget, clouds: Cloud[]): Promise<DriverOutcome> {
  const wanted = instanceTags(target);
  const left: PartRow[] = [];
  for (const cloud of clouds) {
    const ours = (await cloud.parts(wanted)).filter(({ tags }) => carries(tags, wanted));
    await Promise.all(ours.filter(({ state }) => state === 'available').map((part) => cloud.remove(part)));
    left.push(...ours);
  }
  if (left.length === 0)
    return { outcome: 'done', message: 'no machine of this instance exists, and nothing that it had' };
  const names = left.map(({ kind, id }) => `${kind} ${id}`).join(', ');
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being removed: ${names}` };
}

export async function destroy(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { clouds, found, disowned, settling } = await ownAnywhere(host, target);
  if (disowned.length > 0) return disownedFailure(disowned);
  if (settling) return settlingWait;
  const left = found.filter(notTerminated);
  if (left.length === 0) return removeParts(host, target, clouds);
  const living = left.filter((placed) => !hasEnded(placed));
  if (living.length > 0) await terminate(living);
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being terminated: ${namesOf(left)}` };
}
