/** Ends the command that a killed agent left running, before its successor starts another. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { isFields } from '../state/shape.ts';
import { endProcesses } from './process-group.ts';
import { instanceProcesses } from './process-table.ts';

const recordPath = (agent_directory: string) => join(agent_directory, 'command.json');

export const commandWasStarted = (agent_directory: string) => existsSync(recordPath(agent_directory));

export function rememberCommand(agent_directory: string, pid: number): void {
  writeAtomically(recordPath(agent_directory), JSON.stringify({ group: pid }));
}

/**
 * Returns how many processes were found. Only tagged members count: the group id may have been
 * reused.
 */
export async function endLeftover(
  agent_directory: string,
  node_instance_id: string,
  grace_ms: number,
  clock: Clock,
): Promise<number> {
  const record = readJsonFile(recordPath(agent_directory));
  if (!isFields(record)) return 0;
  const left = instanceProcesses(node_instance_id).filter(({ group }) => group === record.group);
  await endProcesses(left, grace_ms, clock);
  return left.length;
}
