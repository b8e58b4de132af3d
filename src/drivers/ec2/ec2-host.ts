/**
 * Shared by all calls of the ec2 driver: regions, what exists of an instance in them, and time
 * limits.
 */
import type { Clock } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import type { Cloud, InstanceRow } from './cloud.ts';
import { isEc2Spec } from './spec.ts';
import { carries, instanceTags } from './tags.ts';

export interface Ec2Host {
  /** The digest of the agent bundle that machines fetch; undefined if this server has none. */
  bundleDigest(): Promise<string | undefined>;
  clock: Clock;
  /** Poll interval for states that change within seconds. */
  poll_seconds: number;
  stop_grace_seconds: number;
  /** The provider runs on this host too, so its machines reach loopback addresses. */
  on_this_host: boolean;
  cloudAt(region: string): Promise<Cloud>;
  /** Every region that a pool names, now or earlier. */
  regionsInUse(): Promise<string[]>;
  list(cloud: Cloud, installation_id: string): Promise<InstanceRow[]>;
  /** Launches that the provider refused: they cannot appear in a list later. */
  refused: Set<NodeInstanceId>;
}

/** How long a launched machine may be missing from lists. */
export const settle_seconds = 30;

export const keptId = ({ state }: DriverTarget): string | null =>
  typeof state.instance_id === 'string' ? state.instance_id : null;

export function regionOf({ state, spec }: DriverTarget): string | undefined {
  if (typeof state.region === 'string') return state.region;
  return isEc2Spec(spec) ? spec.region : undefined;
}

/**
 * Without a known pool its region is unknown, so all are searched: absence from one proves nothing.
 */
async function cloudsOf(host: Ec2Host, target: DriverTarget): Promise<Cloud[]> {
  const region = regionOf(target);
  const regions = region === undefined ? await host.regionsInUse() : [region];
  return Promise.all(regions.map((each) => host.cloudAt(each)));
}

export interface Placed {
  cloud: Cloud;
  row: InstanceRow;
}

export interface Own {
  clouds: Cloud[];
  found: Placed[];
  /** Launched as ours, but somebody removed our tags: not ours to touch, and not gone. */
  disowned: Placed[];
  /** Nothing is listed, but something may be in a moment. */
  settling: boolean;
}

const isOver = ({ row }: Placed) => row.state === 'terminated';
export const hasEnded = (placed: Placed) => isOver(placed) || placed.row.state === 'shutting-down';
export const notTerminated = (placed: Placed) => !isOver(placed);

async function onCloud(cloud: Cloud, target: DriverTarget): Promise<Placed[]> {
  const rows = await cloud.instances(instanceTags(target));
  const id = keptId(target);
  const known = id !== null && !rows.some((row) => row.id === id) ? await cloud.instance(id) : null;
  return [...rows, ...(known ? [known] : [])].map((row) => ({ cloud, row }));
}

/**
 * A launch is recorded before it is requested, so that after a crash it is known that there may be
 * one.
 */
export function mayAppear(host: Ec2Host, target: DriverTarget): boolean {
  const { asked_at_ms } = target.state;
  if (typeof asked_at_ms !== 'number' || host.refused.has(target.node_instance_id)) return false;
  return host.clock.nowMs() - asked_at_ms < settle_seconds * 1000;
}

/** Finds what exists of an instance. Checks the tags again: nothing without them may be touched. */
export async function ownAnywhere(host: Ec2Host, target: DriverTarget): Promise<Own> {
  const clouds = await cloudsOf(host, target);
  const all = (await Promise.all(clouds.map((cloud) => onCloud(cloud, target)))).flat();
  const wanted = instanceTags(target);
  const found = all.filter(({ row }) => carries(row.tags, wanted));
  const disowned = all.filter((placed) => notTerminated(placed) && !carries(placed.row.tags, wanted));
  return { clouds, found, disowned, settling: all.length === 0 && mayAppear(host, target) };
}

export const namesOf = (found: Placed[]) => found.map(({ row }) => row.id).join(', ');

export const settlingWait: DriverWait = {
  outcome: 'wait',
  retry_seconds: 5,
  message: 'a machine was asked for a moment ago and may not be listed yet; it is looked for again',
};

export const disownedFailure = (disowned: Placed[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'tags_removed',
  message: `${namesOf(disowned)} was launched for this node and no longer carries its tags, so it is left alone: put the tags back, or end it by hand`,
  retryable: true,
});
