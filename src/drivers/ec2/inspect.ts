/**
 * Read-only calls: the state of an instance (`observe`), proof of its absence (`prove`), and
 * everything of ours (`list_owned`).
 */
import { onlyProvesAbsence } from '../absence-proof.ts';
import type { DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import { unseen } from '../unseen.ts';
import type { Cloud } from './cloud.ts';
import { type Ec2Host, mayAppear, notTerminated, ownAnywhere, regionOf, settlingWait } from './ec2-host.ts';
import { idsIn, instanceTags, tagNames } from './tags.ts';

const absent: Observation = { state: 'absent', present: false, ready: false, detail: null };

export async function observe(host: Ec2Host, target: DriverTarget): Promise<Observation> {
  const region = regionOf(target);
  if (region === undefined) return absent;
  const rows = await host.list(await host.cloudAt(region), target.installation_id);
  const own = rows.filter(({ tags }) => idsIn(tags).node_instance_id === target.node_instance_id);
  const row = own.find(({ state }) => state !== 'terminated');
  if (row) return { state: row.state, present: true, ready: row.state === 'running', detail: row.reason };
  if (own.length === 0 && mayAppear(host, target)) return unseen(settlingWait.message);
  return { ...absent, detail: own[0]?.reason ?? null };
}

async function partsLeft(clouds: Cloud[], target: DriverTarget): Promise<string[]> {
  const parts = await Promise.all(clouds.map((cloud) => cloud.parts(instanceTags(target))));
  return parts.flat().map(({ kind, id, state }) => `${kind} ${id} (${state})`);
}

export async function prove(
  host: Ec2Host,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return onlyProvesAbsence('ec2', kind);
  const { clouds, found, disowned, settling } = await ownAnywhere(host, target);
  if (settling) return settlingWait;
  const machines = [...found, ...disowned].filter(notTerminated);
  const left = [
    ...machines.map(({ cloud, row }) => `instance ${row.id} (${row.state}) in ${cloud.region}`),
    ...(await partsLeft(clouds, target)),
  ];
  if (left.length > 0)
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there: ${left.join(' and ')}`,
      retryable: true,
    };
  const tag = `${tagNames.node_instance_id}=${target.node_instance_id}`;
  const checked = clouds.flatMap((cloud) => {
    const terminated = found.filter((placed) => placed.cloud === cloud).map(({ row }) => `${row.id} (terminated)`);
    return [
      { what: `instances in ${cloud.region} that carry ${tag}`, seen: terminated.join(', ') || 'none' },
      { what: `volumes and network interfaces in ${cloud.region} that carry ${tag}`, seen: 'none' },
    ];
  });
  host.refused.delete(target.node_instance_id);
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

/**
 * Lists a volume or an interface only if it is not attached: otherwise it goes with its machine.
 */
export async function listOwned(host: Ec2Host, installation_id: string): Promise<OwnedResource[]> {
  const clouds = await Promise.all((await host.regionsInUse()).map((region) => host.cloudAt(region)));
  const listed = await Promise.all(
    clouds.map(async (cloud): Promise<OwnedResource[]> => {
      const [rows, parts] = await Promise.all([
        host.list(cloud, installation_id),
        cloud.parts({ [tagNames.installation_id]: installation_id }),
      ]);
      const machines = rows.filter(({ state }) => state !== 'terminated');
      const loose = parts.filter(({ state }) => state === 'available');
      return [
        ...machines.map(({ id, tags }) => ({ resource: id, kind: 'instance', ...idsIn(tags) })),
        ...loose.map(({ id, kind, tags }) => ({ resource: id, kind, ...idsIn(tags) })),
      ];
    }),
  );
  return listed.flat();
}
