/**
 * Describes an action that the server offers to the dialog, with the server's text and prediction.
 */

import type { AllocationActed } from '../../../../src/contract/allocation-action.ts';
import type { NodeActed } from '../../../../src/contract/supervision/explanation.ts';
import type { Offer } from '../../../../src/lifecycle/actions/action-table.ts';
import { newKey } from '../../api/client.ts';
import { toSentence } from '../../ui/text.ts';
import { withLocalTimes } from '../../ui/time/times.ts';
import { type Action, dryRun, type Extras, type Outcome, type Prediction } from './action.ts';
import { type ActionName, actionLabel, extrasOf, isEnding } from './words.ts';

type ActionReply = NodeActed | AllocationActed;
type Send = (body: Extras & { reason: string; dry_run?: boolean }, idempotency_key: string) => Promise<ActionReply>;

function predictionOf(reply: ActionReply): Prediction {
  const { says: text, deadline_at, fingerprint } = reply.predicts;
  const prediction = { text: toSentence(withLocalTimes(text)), deadline_at, ...(fingerprint && { fingerprint }) };
  return 'node' in reply
    ? { ...prediction, transition: { subject: 'node', from: reply.node.status, to: reply.predicts.status } }
    : {
        ...prediction,
        transition: { subject: 'allocation', from: reply.allocation.status, to: reply.predicts.status },
      };
}

const tokenIn = (reply: ActionReply): string | undefined =>
  'enrollment_token' in reply && typeof reply.enrollment_token === 'string' ? reply.enrollment_token : undefined;

const outcomeOf = (action: ActionName, name: string, reply: ActionReply): Outcome => ({
  notice: `Requested: ${actionLabel(action)} ${name}; ${withLocalTimes(reply.predicts.says)}`,
  isRunning: true,
  enrollment_token: tokenIn(reply),
});

export const offeredAction = ({ action, does }: Offer<ActionName>, name: string, send: Send): Action => ({
  title: `${actionLabel(action)} · ${name}`,
  description: toSentence(does),
  button: actionLabel(action),
  destructive: isEnding(action),
  needsReason: true,
  extraFields: extrasOf(action),
  predict: async (extras) => predictionOf(await send({ ...extras, ...dryRun }, newKey())),
  run: async ({ reason = '', ...extras }, key) => outcomeOf(action, name, await send({ ...extras, reason }, key)),
});
