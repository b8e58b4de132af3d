/**
 * The clients per region, the time limits and the search for an instance's machines, which all
 * calls of the ec2 driver share.
 */
import type { Clock } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { DriverFailure, DriverTarget, DriverWait } from '../driver.ts';
import type { Cloud, InstanceRow } from './cloud.ts';
import { isEc2Spec } from './spec.ts';
import { hasTags, instanceTags } from './tags.ts';

export interface Ec2Host {
  /** The digest of the agent bundle that machines fetch; undefined if this server has none. */
  bundleDigest(): Promise<string | undefined>;
  clock: Clock;
  /** Poll interval for states that change within seconds. */
  poll_seconds: number;
  stop_grace_seconds: number;
  /**
   * True if the provider's endpoint is on this host. Its machines can then reach loopback
   * addresses.
   */
  on_this_host: boolean;
  cloudAt(region: string): Promise<Cloud>;
  /** Every region that a pool names or named earlier. */
  regionsInUse(): Promise<string[]>;
  list(cloud: Cloud, installation_id: string): Promise<InstanceRow[]>;
  /** Instances whose last launch the provider refused, so that no machine can appear later. */
  refused: Set<NodeInstanceId>;
}

/** For this long after a launch, EC2 may not list the machine yet. */
export const settle_seconds = 30;

export const storedId = ({ state }: DriverTarget): string | null =>
  typeof state.instance_id === 'string' ? state.instance_id : null;

export function regionOf({ state, spec }: DriverTarget): string | undefined {
  if (typeof state.region === 'string') return state.region;
  return isEc2Spec(spec) ? spec.region : undefined;
}

/**
 * Returns all regions in use if neither the stored state nor the spec names the instance's region:
 * absence from one region proves nothing then.
 */
async function openClouds(host: Ec2Host, target: DriverTarget): Promise<Cloud[]> {
  const region = regionOf(target);
  const regions = region === undefined ? await host.regionsInUse() : [region];
  return Promise.all(regions.map((name) => host.cloudAt(name)));
}

export interface PlacedMachine {
  cloud: Cloud;
  row: InstanceRow;
}

export interface InstanceSearch {
  clouds: Cloud[];
  machines: PlacedMachine[];
  /** Machines that we launched and that lost our tags. They must not be touched. */
  disowned: PlacedMachine[];
  /** True if no machine is listed, but a recent launch may still appear. */
  settling: boolean;
}

const isTerminated = ({ row }: PlacedMachine) => row.state === 'terminated';
export const hasEnded = (placed: PlacedMachine) => isTerminated(placed) || placed.row.state === 'shutting-down';
export const isNotTerminated = (placed: PlacedMachine) => !isTerminated(placed);

async function findInRegion(cloud: Cloud, target: DriverTarget): Promise<PlacedMachine[]> {
  const rows = await cloud.instances(instanceTags(target));
  const id = storedId(target);
  const storedMachine = id !== null && !rows.some((row) => row.id === id) ? await cloud.instance(id) : null;
  return [...rows, ...(storedMachine ? [storedMachine] : [])].map((row) => ({ cloud, row }));
}

/**
 * Whether a recent launch may still appear in lists. The launch is recorded before it is requested,
 * so this is known even after a crash.
 */
export function mayAppear(host: Ec2Host, target: DriverTarget): boolean {
  const { asked_at_ms } = target.state;
  if (typeof asked_at_ms !== 'number' || host.refused.has(target.node_instance_id)) return false;
  return host.clock.nowMs() - asked_at_ms < settle_seconds * 1000;
}

/**
 * Finds the machines of an instance. Compares the tags again, because the machine with the stored
 * id may have lost its tags, and then must not be touched.
 */
export async function findInstance(host: Ec2Host, target: DriverTarget): Promise<InstanceSearch> {
  const clouds = await openClouds(host, target);
  const candidates = (await Promise.all(clouds.map((cloud) => findInRegion(cloud, target)))).flat();
  const expectedTags = instanceTags(target);
  const machines = candidates.filter(({ row }) => hasTags(row.tags, expectedTags));
  const disowned = candidates.filter((placed) => isNotTerminated(placed) && !hasTags(placed.row.tags, expectedTags));
  return { clouds, machines, disowned, settling: candidates.length === 0 && mayAppear(host, target) };
}

export const idsOf = (machines: PlacedMachine[]) => machines.map(({ row }) => row.id).join(', ');

export const settlingWait: DriverWait = {
  outcome: 'wait',
  retry_seconds: 5,
  message: 'a machine was requested a moment ago and may not be listed yet; checking again',
};

export const disownedFailure = (disowned: PlacedMachine[]): DriverFailure => ({
  outcome: 'failed',
  owner_layer: 'provider',
  code: 'tags_removed',
  message: `${idsOf(disowned)} was launched for this node but no longer has its tags, so it was not touched: restore the tags, or terminate the machine yourself`,
  retryable: true,
});
