/**
 * Read-only calls: the state of an instance (`observe`), proof of its absence (`prove`), and
 * everything of ours (`list_owned`).
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { kindOf } from '../../base/files/remove-tree.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { onlyProvesAbsence } from '../absence-proof.ts';
import type { DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import { agentEnd, processesLeft } from './agent-end.ts';
import { readLaunch } from './files/launch-record.ts';
import { directoryOf, readMarker } from './files/node-directory.ts';
import { errorCode } from './host-failure.ts';
import type { LocalHost } from './local-host.ts';
import { tagNames } from './processes/procfs.ts';

export async function observe(host: LocalHost, target: DriverTarget): Promise<Observation> {
  const { host_id } = target.state;
  // A machine on another host cannot be seen from here, so it is not reported as gone.
  if (typeof host_id === 'string' && host_id !== host.host_id)
    return { state: 'elsewhere', present: true, ready: false, detail: `it lives on host ${host_id}`, unseen: true };
  const { agent, all } = await host.processes.of(target);
  if (agent) return { state: 'running', present: true, ready: true, detail: `pid ${agent.pid}` };
  const places = placesOf(host, target);
  const kinds = await Promise.all(places.map(kindOf));
  if (kinds.every((kind) => kind === 'absent') && all.length === 0)
    return { state: 'absent', present: false, ready: false, detail: null };
  const directory = places[kinds.indexOf('directory')];
  // A directory that was only partly removed has lost its own record; the state shows that it ran.
  const ranBefore = typeof target.state.pid === 'number';
  const launched = directory !== undefined && (ranBefore || (await readLaunch(directory)).launches > 0);
  const end = launched ? await agentEnd(directory) : null;
  const left = all.length > 0 ? processesLeft(all.length) : null;
  return {
    state: launched || left ? 'exited' : 'created',
    present: true,
    ready: false,
    detail: [end?.summary, left].filter((part) => part).join('; ') || null,
  };
}

/**
 * Servers of one host may have different directories; absence from ours proves nothing about the
 * original one.
 */
function placesOf(host: LocalHost, { node_instance_id, state }: DriverTarget): string[] {
  const made_at = typeof state.directory === 'string' ? [state.directory] : [];
  return [...new Set([directoryOf(host.nodes_dir, node_instance_id), ...made_at])];
}

export async function prove(
  host: LocalHost,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return onlyProvesAbsence('local', kind);
  const { all, looked_at } = await host.processes.of(target);
  const directories = placesOf(host, target);
  const kinds = await Promise.all(directories.map(kindOf));
  const remaining = directories.filter((_, index) => kinds[index] !== 'absent');
  if (all.length > 0 || remaining.length > 0) {
    const pids = all.map(({ pid }) => pid).join(', ');
    const left = [pids && `processes ${pids}`, ...remaining].filter((part) => part).join(' and ');
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there on host ${host.host_id}: ${left}`,
      retryable: true,
    };
  }
  const checked = [
    {
      what: `processes of host ${host.host_id} that carry ${tagNames.node_instance_id}=${target.node_instance_id}, descend from one or work in its directory`,
      seen: `none of ${looked_at}`,
    },
    ...directories.map((path) => ({ what: `directory ${path} on host ${host.host_id}`, seen: 'does not exist' })),
  ];
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

async function entriesOf(nodes_dir: string): Promise<string[]> {
  try {
    return await readdir(nodes_dir);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

export async function listOwned(host: LocalHost, installation_id: string): Promise<OwnedResource[]> {
  const owned: OwnedResource[] = [];
  const withDirectory = new Set<string>();
  for (const name of await entriesOf(host.nodes_dir)) {
    const directory = join(host.nodes_dir, name);
    const marker = await readMarker(directory);
    if (marker?.installation_id !== installation_id) continue;
    const { node_id, node_instance_id } = marker;
    withDirectory.add(node_instance_id);
    owned.push({ resource: directory, kind: 'directory', node_id, node_instance_id });
  }
  for (const { pid, tags } of await host.processes.rows()) {
    if (tags?.installation_id !== installation_id || withDirectory.has(tags.node_instance_id)) continue;
    owned.push({
      resource: `pid:${pid}`,
      kind: 'process',
      node_id: tags.node_id as NodeId | null,
      node_instance_id: tags.node_instance_id as NodeInstanceId,
    });
  }
  return owned;
}
