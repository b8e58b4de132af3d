/** How an agent ends by itself, for whoever started it: an exit code, and a file that says why. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import { writeWhole } from '../state/durable-file.ts';

/**
 * `stopped` and `instance_fenced` are no failures: a service manager must not start the agent again. All others would end
 * the same way if the same agent were started again at once.
 */
export const exitCodes = {
  stopped: 0,
  instance_fenced: 0,
  setup_failed: 10,
  prerequisite_missing: 11,
  registration_deadline: 12,
  registration_refused: 13,
  credential_unknown: 14,
  agent_crashed: 70,
} as const;
export type EndCode = keyof typeof exitCodes;

/** Wrong flags, and a directory in which another agent already runs: nothing was begun, so no file is written. */
export const usageExitCode = 2;
export const occupiedExitCode = 3;

export interface AgentEnd {
  code: EndCode;
  reason: string;
  /** What the control plane, or the way to it, answered last. */
  failure?: { code: string; detail: string };
  last_output?: string[];
}

const exitFile = (dir: string) => join(dir, 'agent.exit.json');

/** Not for an agent that was told to stop: its absence then says that there is nothing to explain. */
export function writeExitFile(dir: string, end: AgentEnd, clock: Clock): void {
  if (end.code === 'stopped') return;
  const record = { ...end, exit_status: exitCodes[end.code], at: now(clock).toISOString() };
  writeWhole(exitFile(dir), JSON.stringify(record));
}

/** An earlier life's last word would be taken for this one's. */
export function removeExitFile(dir: string): void {
  rmSync(exitFile(dir), { force: true });
}
