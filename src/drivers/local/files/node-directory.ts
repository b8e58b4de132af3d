/**
 * The directory of one instance: its path, its ownership marker, and how it is created and removed.
 */
import { chmod, mkdir, readdir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { readKind, removeTree } from '../../../base/files/remove-tree.ts';
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { DriverTarget } from '../../driver.ts';
import { errorCode } from '../host-failure.ts';
import { readRecord, writeRecord } from './small-file.ts';

export const files = {
  marker: 'slipway.json',
  agent_config: 'agent.json',
  agent_output: 'agent.out',
  /** Written by the agent when it gives up: `{code, reason}`. */
  agent_exit: 'agent.exit.json',
  /** Written by the server that launched the agent, if that server still ran at the agent's end. */
  agent_ended: 'agent.ended.json',
  /** Where the agent keeps log lines until the server has them. */
  agent_spool: '.agent/spool',
  /** A directory for each run of the command, with output that the agent has not read. */
  agent_command: '.agent/command',
  launch: 'launch.json',
  /**
   * Written by the agent or the driver after `clean` succeeded: `{workflow_id}` of the operation.
   */
  cleaned: 'cleaned',
  clean_script: 'clean.sh',
  clean_run: 'clean.run.json',
  clean_status: 'clean.status',
  clean_output: 'clean.out',
  temporary: 'tmp',
  /**
   * Working directory of set-up, command and clean, so that a careless `rm -rf ./*` does not
   * remove the agent's files and the marker.
   */
  work: 'work',
} as const;

export interface Marker {
  installation_id: string;
  pool: string;
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
}

/** Without dots and slashes an id can only name an entry of the nodes' directory. */
const safeName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$/;

export function directoryOf(nodes_dir: string, node_instance_id: string): string {
  if (!safeName.test(node_instance_id)) throw new TypeError('an instance id must be a plain name');
  return join(nodes_dir, node_instance_id);
}

/** The first launch creates `nodes_dir`; until then there are no entries. */
export async function listEntries(nodes_dir: string): Promise<string[]> {
  try {
    return await readdir(nodes_dir);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

export async function readMarker(directory: string): Promise<Marker | null> {
  const record = await readRecord(join(directory, files.marker));
  if (typeof record?.installation_id !== 'string' || typeof record.node_instance_id !== 'string') return null;
  return {
    installation_id: record.installation_id,
    pool: String(record.pool),
    node_id: String(record.node_id) as NodeId,
    node_instance_id: record.node_instance_id as NodeInstanceId,
  };
}

export type DirectoryOrigin = 'created' | 'existing' | 'foreign';

/**
 * A directory has no marker if a crash came before it was written or the workload removed it. Then
 * the name alone identifies the instance.
 */
async function ownerOf(directory: string, target: DriverTarget): Promise<'ours' | 'foreign' | 'unmarked'> {
  const marker = await readMarker(directory);
  if (!marker) return 'unmarked';
  const isOurs =
    marker.installation_id === target.installation_id && marker.node_instance_id === target.node_instance_id;
  return isOurs ? 'ours' : 'foreign';
}

/** Creates the directory and its marker, before anything else of the instance exists. */
export async function ensureDirectory(directory: string, target: DriverTarget): Promise<DirectoryOrigin> {
  let isNew = true;
  try {
    await mkdir(directory, { mode: 0o700 });
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
    isNew = false;
    if ((await readKind(directory)) !== 'directory') return 'foreign';
  }
  const owner = isNew ? 'unmarked' : await ownerOf(directory, target);
  if (owner === 'foreign') return 'foreign';
  if (owner === 'unmarked') {
    const { installation_id, pool, node_id, node_instance_id } = target;
    await writeRecord(join(directory, files.marker), { installation_id, pool, node_id, node_instance_id });
  }
  return isNew ? 'created' : 'existing';
}

/**
 * `refilled` means that a file appeared during the removal, such as the record of an agent's end.
 */
export type Removal = 'removed' | 'foreign' | 'refilled';

/** Removes the marker last, so that a partly removed directory still names its owner. */
export async function removeDirectory(directory: string, target: DriverTarget): Promise<Removal> {
  const kind = await readKind(directory);
  if (kind === 'absent') return 'removed';
  if (kind === 'other') {
    await removeTree(directory);
    return 'removed';
  }
  await chmod(directory, 0o700);
  if ((await ownerOf(directory, target)) === 'foreign') return 'foreign';
  const names = await readdir(directory);
  for (const name of names) if (name !== files.marker) await removeTree(join(directory, name));
  if (names.includes(files.marker)) await unlink(join(directory, files.marker));
  try {
    await rmdir(directory);
  } catch (error) {
    if (errorCode(error) !== 'ENOTEMPTY') throw error;
    return 'refilled';
  }
  return 'removed';
}
