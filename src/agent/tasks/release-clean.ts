/**
 * Removes the workload's remains and reports each check with its finding. The report contains the
 * caller's nonce, so an older report cannot replace it. For a reuse, the workload directories are
 * emptied and set up again, as before the first tenant.
 */
import { join } from 'node:path';
import { now } from '../../base/clock.ts';
import { describeScriptEnd } from '../../base/files/pool-scripts.ts';
import { emptyDirectory } from '../../base/files/remove-tree.ts';
import type { ShellEnd } from '../process/shell.ts';
import { writeAtomically } from '../state/durable-file.ts';
import { errorText, textOf } from '../state/shape.ts';
import { failed, type Machine, succeeded, type TaskOutcome, type TaskType } from './task.ts';

/** Name of the file that records for which operation and nonce `clean` ran. */
const markerName = 'cleaned';
/** The longest error message that the server accepts. */
const maxText = 8192;

type Check = { what: string; seen: string };
/** The checks, and the number of the former tenant's last log line. */
type Preparation = { checks: Check[]; last_log_seq: number };

const toScriptFailure = (name: 'clean' | 'setup', end: ShellEnd) =>
  failed(`${name}_failed`, describeScriptEnd(name, end.ending, end.last_lines).slice(0, maxText));

export const releaseClean: TaskType = async ({ task, machine, signal }) => {
  const nonce = textOf(task.params.nonce);
  if (!nonce) return failed('task_params_invalid', 'release.clean needs a `nonce`');
  // A running command could write new files while the old ones are removed.
  await machine.stopCommand(null);
  const end = await machine.clean(signal);
  if (end && !end.ok) return toScriptFailure('clean', end);
  const remaining = machine.processes();
  if (remaining.length > 0) {
    return failed('clean_failed', `processes of the instance still run: ${remaining.map(({ pid }) => pid).join(', ')}`);
  }
  const checked: Check[] = [
    { what: 'processes of the instance except its agent', seen: 'none' },
    { what: "the pool's clean", seen: end ? end.ending : 'the pool has nothing to clean' },
  ];
  const preparation = task.params.reuse === true ? await prepareForReuse(machine, signal) : null;
  if (preparation && 'status' in preparation) return preparation;
  checked.push(...(preparation?.checks ?? []));
  const { workflow_id } = task;
  writeAtomically(
    join(machine.dir, markerName),
    JSON.stringify({ nonce, workflow_id, at: now(machine.clock).toISOString() }),
  );
  machine.recordRelease(workflow_id);
  return succeeded({ clean: true, nonce, checked, ...(preparation && { last_log_seq: preparation.last_log_seq }) });
};

/**
 * Returns the checks or the failure. Emptying the directories removes the set-up's files too, so
 * the set-up runs again.
 */
async function prepareForReuse(machine: Machine, signal: AbortSignal): Promise<Preparation | TaskOutcome> {
  const checks: Check[] = [];
  for (const directory of machine.workload_dirs) {
    try {
      await emptyDirectory(directory);
    } catch (error) {
      return failed('clean_failed', `the tenant's files in ${directory} cannot be removed: ${errorText(error)}`);
    }
    checks.push({ what: `directory ${directory}`, seen: 'emptied' });
  }
  const result = await machine.forgetTenant(signal);
  if ('failure' in result) return failed('clean_failed', result.failure);
  const { finding, last_log_seq } = result;
  checks.push({ what: "the agent's records of the tenant", seen: finding });
  if (machine.workload_dirs.length === 0) {
    const seen = 'not checked: Slipway did not create this machine, so its owner must remove them';
    return { checks: [...checks, { what: 'files of the tenant', seen }], last_log_seq };
  }
  const end = await machine.setUp(signal);
  if (!end) return { checks, last_log_seq };
  if (!end.ok) return toScriptFailure('setup', end);
  return { checks: [...checks, { what: "the pool's set-up, run again", seen: end.ending }], last_log_seq };
}
