/** Removes what the workload left and states, bound to the asker's nonce, what was looked at and what was seen. */
import { join } from 'node:path';
import { now } from '../../base/clock.ts';
import { scriptEnd } from '../../base/script-end.ts';
import { writeWhole } from '../durable-file.ts';
import { textOf } from '../shape.ts';
import { failed, succeeded, type TaskType } from './task.ts';

/** Whoever looks into the directory later sees that `clean` has been run, and for which question. */
const markerName = 'cleaned';

export const releaseClean: TaskType = async ({ task, machine, signal }) => {
  const nonce = textOf(task.params.nonce);
  if (!nonce) return failed('task_params_invalid', 'release.clean needs a `nonce`');
  // A command that still ran would make new what is being removed.
  await machine.stopCommand(null);
  const end = await machine.clean(signal);
  if (end && !end.ok)
    return failed('clean_failed', scriptEnd('clean', end.script, end.how, end.last_lines).slice(0, 8192));
  const left = machine.processes();
  if (left.length > 0) {
    return failed('clean_failed', `processes of the instance still run: ${left.map(({ pid }) => pid).join(', ')}`);
  }
  writeWhole(join(machine.dir, markerName), JSON.stringify({ nonce, at: now(machine.clock).toISOString() }));
  return succeeded({
    clean: true,
    nonce,
    checked: [
      { what: 'processes of the instance besides its agent', seen: 'none' },
      { what: "the pool's clean", seen: end ? end.how : 'the pool has nothing to clean' },
    ],
  });
};
