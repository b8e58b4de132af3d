/**
 * Decides which of the server's task keys the agent keeps. TLS and the credential authenticate
 * them; endorsements confirm them.
 */
import type { TaskKey } from '../../../contract/agent/agent.ts';
import { continuityOf } from '../../../contract/agent/task-key-chain.ts';
import type { Log } from '../../log.ts';
import type { StateFile } from '../../state/state-file.ts';

export interface SentKeys {
  task_keys: TaskKey[];
  former_task_keys?: TaskKey[];
}

/**
 * The server's list replaces ours, which drops retired keys. A key with a wrong endorsement is
 * refused. One without a link to a known key is accepted: the agent may have been away for longer
 * than the chain reaches.
 */
export function acceptedKeys(known: readonly TaskKey[], sent: SentKeys, log: Log): TaskKey[] {
  const links = [...sent.task_keys, ...(sent.former_task_keys ?? [])];
  const judged = sent.task_keys.map((key) => ({ key, continuity: continuityOf(key, known, links) }));
  for (const { key, continuity } of judged) {
    if (continuity === 'forged') log.error('a task key was refused: its endorsement is wrong', { kid: key.kid });
    if (continuity === 'unproven' && known.length > 0)
      log.warn('a task key continues no key that this agent knew', { kid: key.kid });
  }
  const accepted = judged.filter(({ continuity }) => continuity !== 'forged').map(({ key }) => key);
  // Without any key the agent could run no task, not even one signed by a known key.
  return accepted.length > 0 ? accepted : [...known];
}

export function keepKeys(state: StateFile, sent: SentKeys, log: Log): void {
  const { task_keys: known } = state.read();
  const task_keys = acceptedKeys(known, sent, log);
  if (JSON.stringify(task_keys) !== JSON.stringify(known)) state.update({ task_keys });
}
