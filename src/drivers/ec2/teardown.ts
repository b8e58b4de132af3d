/**
 * Ends an instance: gracefully (`stop`), at once (`abort`), or together with its volumes and
 * interfaces (`destroy`). No call waits until a machine has ended; the caller polls.
 */
import type { DriverDone, DriverOutcome, DriverTarget } from '../driver.ts';
import type { Cloud, PartRow } from './cloud.ts';
import { cannotBeStopped } from './cloud-error.ts';
import {
  disownedFailure,
  type Ec2Host,
  findInstance,
  hasEnded,
  idsOf,
  isNotTerminated,
  type PlacedMachine,
  settlingWait,
} from './ec2-host.ts';
import { hasTags, instanceTags } from './tags.ts';

const nothingIsRunning: DriverDone = { outcome: 'done', message: 'no machine of this instance runs' };

const groupByCloud = (machines: PlacedMachine[]): [Cloud, string[]][] =>
  [...Map.groupBy(machines, ({ cloud }) => cloud)].map(([cloud, group]) => [cloud, group.map(({ row }) => row.id)]);

const terminate = (machines: PlacedMachine[]) =>
  Promise.all(groupByCloud(machines).map(([cloud, ids]) => cloud.terminate(ids)));

/** A machine that cannot be stopped (spot, or without a persistent disk) is terminated instead. */
async function stopOrTerminate(machines: PlacedMachine[], force: boolean): Promise<void> {
  await Promise.all(
    groupByCloud(machines).map(async ([cloud, ids]) => {
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
 * Shuts the machine down, so that its agent stops its command. Forces it off if it still runs when
 * the grace period, counted from the first request, is over.
 */
export async function stop(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { machines, settling } = await findInstance(host, target);
  if (settling) return settlingWait;
  const running = machines.filter((placed) => !hasEnded(placed) && placed.row.state !== 'stopped');
  if (running.length === 0) return nothingIsRunning;
  const now_ms = host.clock.nowMs();
  const { stop_asked_at_ms } = target.state;
  const asked_at_ms = typeof stop_asked_at_ms === 'number' ? stop_asked_at_ms : null;
  const isGraceOver = asked_at_ms !== null && now_ms - asked_at_ms >= host.stop_grace_seconds * 1000;
  // A pending machine cannot be stopped yet, and a stopping one needs no second request.
  const ready = running.filter(({ row }) => row.state === 'running' || isGraceOver);
  if (ready.length > 0) await stopOrTerminate(ready, isGraceOver);
  return {
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message: `${isGraceOver ? 'forcing off machines that did not stop in time' : 'the machine is shutting down'} (${idsOf(running)})`,
    state: { ...target.state, stop_asked_at_ms: asked_at_ms ?? now_ms },
  };
}

/** Terminates the instance's machines; `destroy` also removes volumes and interfaces. */
export async function abort(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { machines, settling } = await findInstance(host, target);
  if (settling) return settlingWait;
  const liveMachines = machines.filter((placed) => !hasEnded(placed));
  if (liveMachines.length === 0) return nothingIsRunning;
  await terminate(liveMachines);
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being terminated: ${idsOf(liveMachines)}` };
}

/** Deleting the machine's volumes deletes the workload's files. */
export const clean = async (): Promise<DriverOutcome> => ({
  outcome: 'done',
  message: "the machine's files are deleted with its volumes",
});

/** Removes detached volumes and interfaces. EC2 removes attached ones with their machine. */
async function removeParts(host: Ec2Host, target: DriverTarget, clouds: Cloud[]): Promise<DriverOutcome> {
  const expectedTags = instanceTags(target);
  const remaining: PartRow[] = [];
  for (const cloud of clouds) {
    const parts = (await cloud.parts(expectedTags)).filter(({ tags }) => hasTags(tags, expectedTags));
    await Promise.all(parts.filter(({ state }) => state === 'available').map((part) => cloud.remove(part)));
    remaining.push(...parts);
  }
  if (remaining.length === 0)
    return { outcome: 'done', message: 'no machine, volume or network interface of this instance exists' };
  const names = remaining.map(({ kind, id }) => `${kind} ${id}`).join(', ');
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being removed: ${names}` };
}

export async function destroy(host: Ec2Host, target: DriverTarget): Promise<DriverOutcome> {
  const { clouds, machines, disowned, settling } = await findInstance(host, target);
  if (disowned.length > 0) return disownedFailure(disowned);
  if (settling) return settlingWait;
  const remaining = machines.filter(isNotTerminated);
  if (remaining.length === 0) return removeParts(host, target, clouds);
  const liveMachines = remaining.filter((placed) => !hasEnded(placed));
  if (liveMachines.length > 0) await terminate(liveMachines);
  return { outcome: 'wait', retry_seconds: host.poll_seconds, message: `being terminated: ${idsOf(remaining)}` };
}
