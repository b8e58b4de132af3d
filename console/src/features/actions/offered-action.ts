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

type Acted = NodeActed | AllocationActed;
type Send = (body: Extras & { reason: string; dry_run?: boolean }, idempotency_key: string) => Promise<Acted>;

function predictionOf(acted: Acted): Prediction {
  const { says: text, deadline_at, fingerprint } = acted.predicts;
  const prediction = { text: toSentence(withLocalTimes(text)), deadline_at, ...(fingerprint && { fingerprint }) };
  return 'node' in acted
    ? { ...prediction, transition: { subject: 'node', from: acted.node.status, to: acted.predicts.status } }
    : {
        ...prediction,
        transition: { subject: 'allocation', from: acted.allocation.status, to: acted.predicts.status },
      };
}

const tokenIn = (acted: Acted): string | undefined =>
  'enrollment_token' in acted && typeof acted.enrollment_token === 'string' ? acted.enrollment_token : undefined;

const outcomeOf = (action: ActionName, name: string, acted: Acted): Outcome => ({
  notice: `Requested: ${actionLabel(action)} ${name}; ${withLocalTimes(acted.predicts.says)}`,
  isRunning: true,
  enrollment_token: tokenIn(acted),
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
