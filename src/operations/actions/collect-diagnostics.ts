/** `collect-diagnostics`: what the machine alone knows becomes evidence, before anybody decides about it. */
import type { Action } from './acting.ts';
import { diagnoseQuestion } from './node-diagnose.ts';
import { askIn } from './node-question.ts';

export const collectDiagnostics: Action = {
  predict: ({ node }) => ({
    status: node.status,
    deadline_at: node.deadline_at,
    says: 'its agent and its provider are asked, and what they say is kept in its timeline, kind evidence.frozen',
  }),
  act: ({ tx, services, shown, asked, caller, at }) =>
    askIn(tx, services, diagnoseQuestion, shown, { ...caller, reason: asked.reason }, at),
};
