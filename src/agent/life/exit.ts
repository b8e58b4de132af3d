/** The exit codes of an agent, and the file that states the reason for its end. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import { writeAtomically } from '../state/durable-file.ts';

/**
 * `stopped` and `instance_fenced` are not failures: a service manager must not restart the agent.
 * With any other code but `agent_crashed`, an immediate restart would end the same way.
 */
export const exitCodes = {
  stopped: 0,
  instance_fenced: 0,
  setup_failed: 10,
  prerequisite_missing: 11,
  registration_deadline: 12,
  registration_refused: 13,
  agent_crashed: 70,
} as const;
export type EndCode = keyof typeof exitCodes;

/**
 * 2: invalid arguments, or a directory that cannot be written. 3: another agent uses the directory.
 * In both cases the agent did not start, and writes no file.
 */
export const usageExitCode = 2;
export const occupiedExitCode = 3;

export interface AgentEnd {
  code: EndCode;
  reason: string;
  /** The last error from the control plane, or the last fault on the path to it. */
  failure?: { code: string; detail: string };
  last_output?: string[];
}

const exitFile = (dir: string) => join(dir, 'agent.exit.json');

/** Writes no file for a stopped agent, because a stop needs no explanation. */
export function writeExitFile(dir: string, end: AgentEnd, clock: Clock): void {
  if (end.code === 'stopped') return;
  const record = { ...end, exit_status: exitCodes[end.code], at: now(clock).toISOString() };
  writeAtomically(exitFile(dir), JSON.stringify(record));
}

/** Removes the file of an earlier run, which would be read as the exit of this run. */
export function removeExitFile(dir: string): void {
  rmSync(exitFile(dir), { force: true });
}
