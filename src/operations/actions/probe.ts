/** `probe`: the machine is asked whether it lives, now, and not when its turn comes. */
import type { Action } from './acting.ts';
import { probeQuestion } from './node-probe.ts';
import { askIn } from './node-question.ts';

export const probe: Action = {
  predict: ({ node }) => ({
    status: node.status,
    deadline_at: node.deadline_at,
    says: node.endpoint
      ? `it is asked at ${node.endpoint} whether it lives, and the answer is kept in its timeline`
      : 'its agent is given a task, and whether it answers is kept in its timeline',
  }),
  act: ({ tx, services, shown, asked, caller, at }) =>
    askIn(tx, services, probeQuestion, shown, { ...caller, reason: asked.reason }, at),
};
