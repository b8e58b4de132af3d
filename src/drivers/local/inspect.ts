/**
 * Read-only calls: the state of an instance (`observe`), proof of its absence (`prove`), and
 * everything of ours (`list_owned`).
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { withoutScripts } from '../../base/files/pool-scripts.ts';
import { kindOf } from '../../base/files/remove-tree.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { onlyProvesAbsence } from '../answers.ts';
import type { Diagnosis, DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import { agentEnd, processesLeft } from './agent-end.ts';
import { readLaunch } from './files/launch-record.ts';
import { directoryOf, files, readMarker } from './files/node-directory.ts';
import { tailOf } from './files/small-file.ts';
import { errorCode } from './host-failure.ts';
import type { LocalHost } from './local-host.ts';
import type { InstanceProcesses } from './processes/instance-processes.ts';
import { tagNames } from './processes/procfs.ts';
import { localSpec } from './spec.ts';

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

type Attachment = Diagnosis['attachments'][number];

const max_attachment_bytes = 16_384;
const max_outputs = 8;
/** Outputs and small records. Never the agent's configuration, which holds a secret. */
const isOutput = /\.(out|log)$/;
const records = [files.agent_exit, files.agent_ended, files.launch, files.clean_run, files.clean_status];

/**
 * Collects what only the machine has: its last lines, its processes, and how its agent ended. Works
 * on a dead machine too.
 */
export async function diagnose(host: LocalHost, target: DriverTarget): Promise<Diagnosis> {
  try {
    return await collect(host, target);
  } catch (error) {
    // A failing diagnosis must not block the release that needs it; its error becomes the
    // diagnosis.
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { summary: 'the diagnosis itself failed', certain: false, attachments: [{ name: 'error', text }] };
  }
}

async function collect(host: LocalHost, target: DriverTarget): Promise<Diagnosis> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const found = await host.processes.of(target);
  if ((await kindOf(directory)) !== 'directory') {
    return {
      summary: 'the directory of this instance does not exist',
      certain: false,
      attachments: processList(found, target.spec),
    };
  }
  const { launches } = await readLaunch(directory);
  const end = await agentEnd(directory);
  const asked_to_stop = typeof target.state.stop_asked_at_ms === 'number';
  return {
    summary: summaryOf(found, launches, end?.summary ?? null),
    // Nothing restarts an agent while its registration is awaited, so waiting longer cannot help.
    certain: launches > 0 && !found.agent && !asked_to_stop,
    ...(!found.agent && end?.code && { code: end.code }),
    attachments: [...(await outputs(directory)), ...(await nodeLog(directory)), ...processList(found, target.spec)],
  };
}

function summaryOf({ agent, all }: InstanceProcesses, launches: number, end: string | null): string {
  if (agent)
    return `the agent process ${agent.pid} runs, with ${all.length - 1} more ${all.length === 2 ? 'process' : 'processes'} of the instance`;
  if (launches === 0) return 'the agent was never launched';
  const left = all.length > 0 ? `; ${processesLeft(all.length)}` : '';
  return `${end ?? 'the agent process is gone and left no word'}${left}`;
}

async function outputs(directory: string): Promise<Attachment[]> {
  const names = (await readdir(directory)).filter((name) => isOutput.test(name)).sort();
  const attachments: Attachment[] = [];
  for (const name of [...names.slice(0, max_outputs), ...records]) {
    const text = await tailOf(join(directory, name), max_attachment_bytes);
    if (text) attachments.push({ name, text });
  }
  return attachments;
}

/** The last lines of set-up and command, which the server may never have received. */
async function nodeLog(directory: string): Promise<Attachment[]> {
  const spool = join(directory, files.agent_spool);
  if ((await kindOf(spool)) !== 'directory') return [];
  const newest = (await readdir(spool))
    .filter((name) => name.endsWith('.lines'))
    .sort()
    .at(-1);
  const text = newest ? await tailOf(join(spool, newest), max_attachment_bytes) : null;
  return text ? [{ name: 'node.log', text }] : [];
}

/** Scripts and arguments are for admins only, and everybody can read a diagnosis. */
function processList({ all }: InstanceProcesses, spec: unknown): Attachment[] {
  if (all.length === 0) return [];
  const { setup, clean, command = [] } = localSpec(spec);
  const hide = withoutScripts([setup, clean, command.slice(1).join(' ')]);
  const lines = all.map(({ pid, ppid, session, argv }) => `${pid}\t${ppid}\t${session}\t${hide(argv.join(' '))}`);
  return [{ name: 'processes', text: ['pid\tparent\tsession\tcommand', ...lines].join('\n') }];
}
