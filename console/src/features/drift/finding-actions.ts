/** The decisions on a finding. */

import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import { newKey } from '../../api/client.ts';
import { type Decision, decideFinding } from '../../api/queries/findings.ts';
import { toSentence } from '../../ui/text.ts';
import { withLocalTimes } from '../../ui/time/times.ts';
import { type Action, dryRun } from '../actions/action.ts';
import { aboutWords } from './words.ts';

export const decisionLabels: Record<Decision, string> = { repair: 'Repair', accept: 'Accept' };

const decisionEffects: Record<Decision, string> = {
  repair: 'This makes both sides agree again.',
  accept: 'You accept this difference.',
};

/** Only drift can be repaired; every other finding can only be accepted. */
export const decisionsOn = ({ kind, status }: Finding): Decision[] => {
  if (status !== 'open') return [];
  return kind === 'drift' ? ['repair', 'accept'] : ['accept'];
};

export const decisionAction = (finding: Finding, decision: Decision): Action => ({
  title: `${decisionLabels[decision]} · ${aboutWords(finding)}`,
  description: `${toSentence(withLocalTimes(finding.says))} ${decisionEffects[decision]}`,
  button: decisionLabels[decision],
  destructive: decision === 'repair',
  needsReason: true,
  predict: async () => {
    const { predicts } = await decideFinding(finding.finding_id, decision, dryRun, newKey());
    return { text: toSentence(withLocalTimes(predicts.says)) };
  },
  run: async ({ reason = '' }, key) => {
    const { finding: decidedFinding } = await decideFinding(finding.finding_id, decision, { reason }, key);
    return { notice: `${aboutWords(decidedFinding)}: the finding is ${decidedFinding.status}` };
  },
});
