/**
 * Removes what the workload left and states, bound to the caller's nonce, what was checked and
 * found. A machine for reuse is restored to its state before the first tenant: its workload
 * directories are emptied and set up again.
 */
import { join } from 'node:path';
import { now } from '../../base/clock.ts';
import { scriptEnd } from '../../base/files/pool-scripts.ts';
import { emptyDirectory } from '../../base/files/remove-tree.ts';
import type { ShellEnd } from '../process/shell.ts';
import { writeAtomically } from '../state/durable-file.ts';
import { errorText, textOf } from '../state/shape.ts';
import { failed, type Machine, succeeded, type TaskOutcome, type TaskType } from './task.ts';

/** A marker file that shows that `clean` ran, for which operation and nonce. */
const markerName = 'cleaned';
/** The longest error message that the server accepts. */
const maxText = 8192;

type Seen = { what: string; seen: string };
/** The findings, and the number of the former tenant's last log line. */
type Restored = { seen: Seen[]; last_log_seq: number };

const scriptFailed = (name: 'clean' | 'setup', end: ShellEnd) =>
  failed(`${name}_failed`, scriptEnd(name, end.how, end.last_lines).slice(0, maxText));

export const releaseClean: TaskType = async ({ task, machine, signal }) => {
  const nonce = textOf(task.params.nonce);
  if (!nonce) return failed('task_params_invalid', 'release.clean needs a `nonce`');
  // A running command would recreate what is being removed.
  await machine.stopCommand(null);
  const end = await machine.clean(signal);
  if (end && !end.ok) return scriptFailed('clean', end);
  const left = machine.processes();
  if (left.length > 0) {
    return failed('clean_failed', `processes of the instance still run: ${left.map(({ pid }) => pid).join(', ')}`);
  }
  const checked: Seen[] = [
    { what: 'processes of the instance besides its agent', seen: 'none' },
    { what: "the pool's clean", seen: end ? end.how : 'the pool has nothing to clean' },
  ];
  const made = task.params.reuse === true ? await restoreForReuse(machine, signal) : null;
  if (made && 'status' in made) return made;
  checked.push(...(made?.seen ?? []));
  const { workflow_id } = task;
  writeAtomically(
    join(machine.dir, markerName),
    JSON.stringify({ nonce, workflow_id, at: now(machine.clock).toISOString() }),
  );
  return succeeded({ clean: true, nonce, checked, ...(made && { last_log_seq: made.last_log_seq }) });
};

/**
 * Returns the findings or the failure. The set-up's files lie among the tenant's, so the set-up
 * runs again.
 */
async function restoreForReuse(machine: Machine, signal: AbortSignal): Promise<Restored | TaskOutcome> {
  const emptied: Seen[] = [];
  for (const directory of machine.workload_dirs) {
    try {
      await emptyDirectory(directory);
    } catch (error) {
      return failed('clean_failed', `what its tenant left in ${directory} cannot be removed: ${errorText(error)}`);
    }
    emptied.push({ what: `directory ${directory}`, seen: 'emptied' });
  }
  const tenant = await machine.forgetTenant(signal);
  if ('kept' in tenant) return failed('clean_failed', tenant.kept);
  const { forgotten, last_log_seq } = tenant;
  emptied.push({ what: 'what the agent kept of its tenant', seen: forgotten });
  if (machine.workload_dirs.length === 0) {
    const seen = 'not looked at: this machine is not ours, and whoever owns it sees to them';
    return { seen: [...emptied, { what: 'files that its tenant left', seen }], last_log_seq };
  }
  const end = await machine.setUp(signal);
  if (!end) return { seen: emptied, last_log_seq };
  if (!end.ok) return scriptFailed('setup', end);
  return { seen: [...emptied, { what: "the pool's set-up, again", seen: end.how }], last_log_seq };
}
