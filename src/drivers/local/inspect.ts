/**
 * The driver's read-only calls: the state of an instance (`inspect`), proof of its absence
 * (`prove`), all directories and processes of the installation (`list_owned`), and `diagnose`.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createScriptHider } from '../../base/files/pool-scripts.ts';
import { readKind } from '../../base/files/remove-tree.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { absenceOnlyFailure } from '../answers.ts';
import type { Diagnosis, DriverTarget, Observation, OwnedResource, ProofKind, ProveOutcome } from '../driver.ts';
import { describeRemaining, readAgentEnd } from './agent-end.ts';
import { readLaunch } from './files/launch-record.ts';
import { directoryOf, files, listEntries, readMarker } from './files/node-directory.ts';
import { readTail } from './files/small-file.ts';
import type { LocalHost } from './local-host.ts';
import type { InstanceProcesses } from './processes/instance-processes.ts';
import { tagNames } from './processes/procfs.ts';
import { localSpec } from './spec.ts';

export async function inspect(host: LocalHost, target: DriverTarget): Promise<Observation> {
  const { agent, all } = await host.processes.find(target);
  if (agent) return { state: 'running', present: true, ready: true, detail: `pid ${agent.pid}` };
  const candidates = directoriesOf(host, target);
  const kinds = await Promise.all(candidates.map(readKind));
  if (kinds.every((kind) => kind === 'absent') && all.length === 0)
    return { state: 'absent', present: false, ready: false, detail: null };
  const directory = candidates[kinds.indexOf('directory')];
  // A partly removed directory may have lost its launch record; the state shows that an agent ran.
  const ranBefore = typeof target.state.pid === 'number';
  const wasLaunched = directory !== undefined && (ranBefore || (await readLaunch(directory)).launches > 0);
  const end = wasLaunched ? await readAgentEnd(directory) : null;
  const left = all.length > 0 ? describeRemaining(all.length) : null;
  return {
    state: wasLaunched || left ? 'exited' : 'created',
    present: true,
    ready: false,
    detail: [end?.summary, left].filter((part) => part).join('; ') || null,
  };
}

/**
 * Servers of one host may use different directories. So the directory in which the machine was
 * launched must be checked too.
 */
function directoriesOf(host: LocalHost, { node_instance_id, state }: DriverTarget): string[] {
  const launchDirectory = typeof state.directory === 'string' ? [state.directory] : [];
  return [...new Set([directoryOf(host.nodes_dir, node_instance_id), ...launchDirectory])];
}

export async function prove(
  host: LocalHost,
  target: DriverTarget,
  { kind, nonce }: { kind: ProofKind; nonce: string },
): Promise<ProveOutcome> {
  if (kind !== 'absent') return absenceOnlyFailure('local', kind);
  const { all, examined } = await host.processes.find(target);
  const directories = directoriesOf(host, target);
  const kinds = await Promise.all(directories.map(readKind));
  const remaining = directories.filter((_, index) => kinds[index] !== 'absent');
  if (all.length > 0 || remaining.length > 0) {
    const pids = all.map(({ pid }) => pid).join(', ');
    const resources = [pids && `processes ${pids}`, ...remaining].filter((part) => part).join(' and ');
    return {
      outcome: 'failed',
      owner_layer: 'provider',
      code: 'not_absent',
      message: `still there on host ${host.host_id}: ${resources}`,
      retryable: true,
    };
  }
  const checked = [
    {
      what: `processes of host ${host.host_id} with the tag ${tagNames.node_instance_id}=${target.node_instance_id}, their descendants, and processes in the instance's directory`,
      seen: `none of ${examined}`,
    },
    ...directories.map((path) => ({ what: `directory ${path} on host ${host.host_id}`, seen: 'does not exist' })),
  ];
  return { outcome: 'done', proof: { kind, nonce, checked } };
}

export async function listOwned(host: LocalHost, installation_id: string): Promise<OwnedResource[]> {
  const owned: OwnedResource[] = [];
  const withDirectory = new Set<string>();
  for (const name of await listEntries(host.nodes_dir)) {
    const directory = join(host.nodes_dir, name);
    const marker = await readMarker(directory);
    if (marker?.installation_id !== installation_id) continue;
    const { node_id, node_instance_id } = marker;
    withDirectory.add(node_instance_id);
    owned.push({ resource: directory, kind: 'directory', node_id, node_instance_id });
  }
  for (const { pid, tags } of await host.processes.readAll()) {
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
/** A diagnosis contains outputs and small records, but not the agent's secret configuration. */
const isOutput = /\.(out|log)$/;
const records = [files.agent_exit, files.agent_ended, files.launch, files.clean_run, files.clean_status];

/**
 * Collects what only the machine has: its last lines, its processes, and how its agent ended.
 * Works on an ended machine too.
 */
export async function diagnose(host: LocalHost, target: DriverTarget): Promise<Diagnosis> {
  try {
    return await collect(host, target);
  } catch (error) {
    // A failed diagnosis must not block the release, so its error becomes the diagnosis.
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { summary: 'the diagnosis itself failed', certain: false, attachments: [{ name: 'error', text }] };
  }
}

async function collect(host: LocalHost, target: DriverTarget): Promise<Diagnosis> {
  const directory = directoryOf(host.nodes_dir, target.node_instance_id);
  const found = await host.processes.find(target);
  if ((await readKind(directory)) !== 'directory') {
    return {
      summary: 'the directory of this instance does not exist',
      certain: false,
      attachments: processList(found, target.spec),
    };
  }
  const { launches } = await readLaunch(directory);
  const end = await readAgentEnd(directory);
  const asked_to_stop = typeof target.state.stop_asked_at_ms === 'number';
  return {
    summary: summaryOf(found, launches, end?.summary ?? null),
    // Nothing restarts an agent while the control plane waits for its registration, so a longer
    // wait cannot help.
    certain: launches > 0 && !found.agent && !asked_to_stop,
    ...(!found.agent && end?.code && { code: end.code }),
    attachments: [
      ...(await readOutputs(directory)),
      ...(await readNodeLog(directory)),
      ...processList(found, target.spec),
    ],
  };
}

function summaryOf({ agent, all }: InstanceProcesses, launches: number, end: string | null): string {
  if (agent)
    return `the agent process ${agent.pid} runs, with ${all.length - 1} more ${all.length === 2 ? 'process' : 'processes'} of the instance`;
  if (launches === 0) return 'the agent was never launched';
  const left = all.length > 0 ? `; ${describeRemaining(all.length)}` : '';
  return `${end ?? 'the agent process has ended and left no reason'}${left}`;
}

async function readOutputs(directory: string): Promise<Attachment[]> {
  const names = (await readdir(directory)).filter((name) => isOutput.test(name)).sort();
  const attachments: Attachment[] = [];
  for (const name of [...names.slice(0, max_outputs), ...records]) {
    const text = await readTail(join(directory, name), max_attachment_bytes);
    if (text) attachments.push({ name, text });
  }
  return attachments;
}

/**
 * Reads the last log lines, because the server may not have received them: from the spool, and from
 * the output that a killed agent has not read.
 */
async function readNodeLog(directory: string): Promise<Attachment[]> {
  const runs = join(directory, files.agent_command);
  const outputs = (await listNames(runs)).map((run) => join(runs, run, 'output'));
  const attachments: Attachment[] = [];
  for (const [name, path] of [
    ['node.log', join(directory, files.agent_spool)] as const,
    ...outputs.map((output) => ['command.log', output] as const),
  ]) {
    const newest = (await listNames(path)).filter((file) => file.endsWith('.lines')).at(-1);
    const text = newest ? await readTail(join(path, newest), max_attachment_bytes) : null;
    if (text) attachments.push({ name, text });
  }
  return attachments;
}

/** Returns the sorted names, or none if there is no such directory. */
const listNames = async (path: string): Promise<string[]> =>
  (await readKind(path)) === 'directory' ? (await readdir(path)).sort() : [];

/** Hides scripts and arguments: only admins may see them, but every user can read a diagnosis. */
function processList({ all }: InstanceProcesses, spec: unknown): Attachment[] {
  if (all.length === 0) return [];
  const { setup, clean, command = [] } = localSpec(spec);
  const hide = createScriptHider([setup, clean, command.slice(1).join(' ')]);
  const lines = all.map(({ pid, ppid, session, argv }) => `${pid}\t${ppid}\t${session}\t${hide(argv.join(' '))}`);
  return [{ name: 'processes', text: ['pid\tparent\tsession\tcommand', ...lines].join('\n') }];
}
