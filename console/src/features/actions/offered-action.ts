/**
 * Turns an action that the server offers into a dialog, with the server's own text and prediction.
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
  const { says, deadline_at, fingerprint } = acted.predicts;
  const prediction = { says: toSentence(withLocalTimes(says)), deadline_at, ...(fingerprint && { fingerprint }) };
  return 'node' in acted
    ? { ...prediction, leads: { of: 'node', from: acted.node.status, to: acted.predicts.status } }
    : { ...prediction, leads: { of: 'allocation', from: acted.allocation.status, to: acted.predicts.status } };
}

const tokenIn = (acted: Acted): string | undefined =>
  'enrollment_token' in acted && typeof acted.enrollment_token === 'string' ? acted.enrollment_token : undefined;

const outcomeOf = (action: ActionName, name: string, acted: Acted): Outcome => ({
  says: `Requested: ${actionLabel(action)} ${name}; ${withLocalTimes(acted.predicts.says)}`,
  begun: true,
  enrollment_token: tokenIn(acted),
});

export const offeredAction = ({ action, does }: Offer<ActionName>, name: string, send: Send): Action => ({
  title: `${actionLabel(action)} · ${name}`,
  says: toSentence(does),
  button: actionLabel(action),
  destructive: isEnding(action),
  needsReason: true,
  asks: extrasOf(action),
  predict: async (extras) => predictionOf(await send({ ...extras, ...dryRun }, newKey())),
  run: async ({ reason = '', ...extras }, key) => outcomeOf(action, name, await send({ ...extras, reason }, key)),
});
