/**
 * Collects what only the machine has: its last lines, its processes, and how its agent ended. Works
 * on a dead machine too.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { withoutScripts } from '../../base/files/hidden-scripts.ts';
import { kindOf } from '../../base/files/remove-tree.ts';
import type { Diagnosis, DriverTarget } from '../driver.ts';
import { agentEnd, processesLeft } from './agent-end.ts';
import { readLaunch } from './files/launch-record.ts';
import { directoryOf, files } from './files/node-directory.ts';
import { tailOf } from './files/small-file.ts';
import type { LocalHost } from './local-host.ts';
import type { InstanceProcesses } from './processes/instance-processes.ts';
import { localSpec } from './spec.ts';

type Attachment = Diagnosis['attachments'][number];

const max_attachment_bytes = 16_384;
const max_outputs = 8;
/** Outputs and small records. Never the agent's configuration, which holds a secret. */
const isOutput = /\.(out|log)$/;
const records = [files.agent_exit, files.agent_ended, files.launch, files.clean_run, files.clean_status];

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
