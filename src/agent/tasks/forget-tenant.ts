/**
 * Removes a tenant's traces before the machine is reused. It ships all pending log lines and facts
 * first, because the server assigns them to the allocation that holds the machine when they arrive.
 * Then it deletes everything that the next tenant could read.
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
  /** The loops that ship the log lines and the facts. */
  loops: Pick<ShipLoop, 'waitUntilEmpty'>[];
}

/** Longer than the longest pause between retries, so that at least one retry happens in time. */
const ship_timeout_ms = 30_000;
const notShipped =
  'the control plane did not accept all log lines and facts of the tenant in time; the rest are still on the machine';
const agentFiles = ['agent.pid', 'state.json', 'command.json', 'facts.json', 'spool', 'results'];

export function createTenantForgetter(parts: TenantForgettingParts): Machine['forgetTenant'] {
  const { config, spool, facts, results } = parts;
  return async (signal) => {
    try {
      const last_log_seq = await shipAll(parts, signal);
      if (last_log_seq === null) return { failure: notShipped };
      results.forgetAll();
      await removeAllExcept(agentDirectory(config.dir), agentFiles);
      const namesToKeep = [basename(agentDirectory(config.dir)), ...config.dir_keeps];
      if (config.dir_keeps.length > 0) await removeAllExcept(config.dir, namesToKeep);
      if (config.output_file) await truncateFile(config.output_file);
      // Log lines that the agent writes from now on belong to the next allocation.
      return { finding: 'sent to the control plane, then removed', last_log_seq };
    } catch (error) {
      return { failure: `the tenant's files in ${config.dir} cannot be removed: ${errorText(error)}` };
    }
  };

  /** Returns the number of the tenant's last log line, or null if not everything was shipped. */
  async function shipAll({ clock, loops }: TenantForgettingParts, signal: AbortSignal): Promise<number | null> {
    const timeout = new AbortController();
    const cancel = clock.after(ship_timeout_ms, () => timeout.abort());
    const end = AbortSignal.any([signal, timeout.signal]);
    try {
      // Repeats, because new lines may have come in meanwhile.
      for (;;) {
        for (const loop of loops) if (!(await loop.waitUntilEmpty(end))) return null;
        if (facts.isEmpty() && spool.forgetAll()) return spool.lastSeq();
      }
    } finally {
      cancel();
    }
  }
}

async function removeAllExcept(directory: string, namesToKeep: readonly string[]): Promise<void> {
  await chmod(directory, 0o700);
  for (const name of await readdir(directory)) if (!namesToKeep.includes(name)) await removeTree(join(directory, name));
}

/**
 * Truncates the file in place, because the agent has it open. A link or a special file that the
 * workload put there is removed instead.
 */
async function truncateFile(path: string): Promise<void> {
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
