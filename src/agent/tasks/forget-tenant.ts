/**
 * Removes a tenant's traces before the machine is reused. First ships all pending lines and facts,
 * because the server assigns them to the allocation that holds the machine when they arrive; then
 * deletes whatever the next tenant could read.
 */
import { closeSync, constants, ftruncateSync, openSync } from 'node:fs';
import { chmod, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { removeTree } from '../../base/files/remove-tree.ts';
import type { FactBox } from '../spool/fact-box.ts';
import type { ShipLoop } from '../spool/ship-loop.ts';
import type { Spool } from '../spool/spool.ts';
import type { AgentConfig } from '../state/config.ts';
import { errorText } from '../state/shape.ts';
import { agentDirectory } from '../state/state-file.ts';
import type { Machine } from './task.ts';
import type { TaskResults } from './task-results.ts';

export interface TenantForgettingParts {
  config: AgentConfig;
  clock: Clock;
  spool: Spool;
  facts: FactBox;
  results: TaskResults;
  /** They ship the lines and the facts. */
  loops: Pick<ShipLoop, 'emptied'>[];
}

/**
 * Longer than the longest pause between retries, so that a server that has just come back is not
 * missed.
 */
const ships_within_ms = 30_000;
const notTaken = 'lines or facts of its tenant wait on the machine: the control plane did not take all of them in time';
const agentKeeps = ['agent.pid', 'state.json', 'command.json', 'facts.json', 'spool', 'results'];

export function createTenantForgetter(parts: TenantForgettingParts): Machine['forgetTenant'] {
  const { config, spool, facts, results } = parts;
  return async (signal) => {
    try {
      const last_log_seq = await shipAll(parts, signal);
      if (last_log_seq === null) return { kept: notTaken };
      results.forgetAll();
      await removeAllExcept(agentDirectory(config.dir), agentKeeps);
      const own = [basename(agentDirectory(config.dir)), ...config.dir_keeps];
      if (config.dir_keeps.length > 0) await removeAllExcept(config.dir, own);
      if (config.output_file) await cutFile(config.output_file);
      // Later lines of the agent are sent under the next allocation; they are not the tenant's.
      return { forgotten: 'sent to the control plane, then removed', last_log_seq };
    } catch (error) {
      return { kept: `what its tenant left in ${config.dir} cannot be removed: ${errorText(error)}` };
    }
  };

  /** Returns the number of the tenant's last line, or null if not everything was shipped. */
  async function shipAll({ clock, loops }: TenantForgettingParts, signal: AbortSignal): Promise<number | null> {
    const late = new AbortController();
    const cancel = clock.after(ships_within_ms, () => late.abort());
    const until = AbortSignal.any([signal, late.signal]);
    try {
      // Also waits for lines that came in between.
      for (;;) {
        for (const loop of loops) if (!(await loop.emptied(until))) return null;
        if (facts.isEmpty() && spool.forgetAll()) return spool.lastSeq();
      }
    } finally {
      cancel();
    }
  }
}

async function removeAllExcept(directory: string, kept: readonly string[]): Promise<void> {
  await chmod(directory, 0o700);
  for (const name of await readdir(directory)) if (!kept.includes(name)) await removeTree(join(directory, name));
}

/**
 * Truncated in place, because it is open for writing. A link or other file that the workload put
 * there is removed unopened.
 */
async function cutFile(path: string): Promise<void> {
  let file: number;
  try {
    file = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return removeTree(path);
  }
  try {
    ftruncateSync(file);
  } finally {
    closeSync(file);
  }
}
