/** `extend-deadline`: more time, by a person's word and with their reason. */
import { secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { markExtended } from '../../store/transitions/advance.ts';
import { moveDeadlines } from '../../store/transitions/deadlines.ts';
import type { Action } from './acting.ts';

const mustHave = (seconds: number | undefined): number => {
  if (seconds === undefined)
    throw new ApiProblem('invalid_request', {
      detail: 'Say by how many `seconds` the deadline moves.',
      errors: [{ path: '/body/seconds', message: 'is required' }],
    });
  return seconds;
};

/** Counted from the deadline, or from now where that has passed already. */
export const extended = (deadline_at: Date | null, seconds: number | undefined, at: Date): Date =>
  secondsLater(deadline_at && deadline_at > at ? deadline_at : at, mustHave(seconds));

export const extendDeadline: Action = {
  predict({ node, asked, at }) {
    const deadline_at = extended(node.deadline_at, asked.seconds, at);
    return { status: node.status, deadline_at, says: `it has until ${deadline_at.toISOString()}` };
  },
  async act({ tx, node, asked, caller, at }, { deadline_at }) {
    if (!deadline_at) return undefined;
    const reason = `extended by ${asked.seconds} s: ${asked.reason}`;
    if (node.node_instance_id) await markExtended(tx, node.node_instance_id, at);
    await moveDeadlines(tx, [{ node, deadline_at, reason }], { layer: 'operator', actor: caller.actor }, at);
    return undefined;
  },
};
