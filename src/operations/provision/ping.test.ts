/** Tests that the message about an unanswered ping names only what was seen. */
import { expect, test } from 'vitest';
import type { AgentAnswer } from '../runtime/agent-task.ts';
import { unansweredMessage } from './ping.ts';

const noAnswer = { status: 'unanswered', error: null } as unknown as AgentAnswer;

test.for([
  [undefined, true, 'it sends no heartbeats, so no ping was sent'],
  [noAnswer, true, 'its provider does not show it any more'],
  [noAnswer, false, 'it sends heartbeats, but takes no tasks, or their answers do not arrive'],
] as const)('answer %s with unreachable %s: %s', ([answer, unreachable, message]) => {
  expect(unansweredMessage(answer, { unreachable })).toBe(message);
});
