/**
 * Sets a budget of a pool with a reason. Shows what the budget would have done to recorded boots.
 * For the time until registration, offers to learn the budget from future boots.
 */
import { Modal, Radio, Stack } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { BootPhase } from '../../../../src/contract/supervision/boots.ts';
import {
  formatSeconds,
  headlineOf,
  sourceWords,
  stuckSentence,
} from '../../../../src/lifecycle/boots/what-if-words.ts';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { setBudget } from '../../api/queries/boots.ts';
import { ReasonForm } from '../../ui/dialog/ReasonForm.tsx';
import { notify } from '../../ui/notices.ts';
import { PredictionBox } from '../actions/PredictionBox.tsx';
import { type BudgetPolicy, policyWords } from './budget-policy.ts';
import type { Judgement } from './what-if.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
  onDone: () => void;
  pool: string;
  phase: BootPhase;
  judged: Judgement;
}

const phaseGoal: Record<BootPhase['phase'], string> = { provision: 'register', start: 'become ready' };

export function BudgetDialog({ opened, onClose, ...props }: Props) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={`Set the budget · ${props.pool}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <BudgetForm onClose={onClose} {...props} />
    </Modal>
  );
}

const policies: BudgetPolicy[] = ['fixed', 'learned'];
const policyNames: Record<BudgetPolicy, string> = { fixed: 'Fixed', learned: 'Learned' };
const isPolicy = (value: string): value is BudgetPolicy => value === 'fixed' || value === 'learned';

function BudgetForm({ onClose, onDone, pool, phase, judged }: Omit<Props, 'opened'>) {
  const cache = useQueryClient();
  const [key] = useState(newKey);
  const [reason, setReason] = useState('');
  const [policy, setPolicy] = useState<BudgetPolicy>(phase.policy);
  const { budget_seconds } = judged;
  // Only the budget for registration can be learned.
  const takesPolicy = phase.phase === 'provision';
  const mutation = useMutation({
    mutationFn: () =>
      setBudget(
        pool,
        { phase: phase.phase, budget_seconds, reason: reason.trim(), ...(takesPolicy && { policy }) },
        key,
      ),
    onSuccess: async () => {
      await cache.invalidateQueries({ queryKey: keys.allBootStatistics() });
      notify.done(`Machines of ${pool} have ${formatSeconds(budget_seconds)} to ${phaseGoal[phase.phase]}`);
      onDone();
      onClose();
    },
  });
  return (
    <ReasonForm
      reason={reason}
      onReason={setReason}
      needsReason
      isReady
      button={`Apply ${formatSeconds(budget_seconds)}`}
      mutation={mutation}
      onClose={onClose}
    >
      <div>
        From the next boot on, a machine of {pool} has <b>{formatSeconds(budget_seconds)}</b> to{' '}
        {phaseGoal[phase.phase]}. The current budget is {formatSeconds(phase.budget_seconds)},{' '}
        {sourceWords[phase.budget_source]}.
      </div>
      <PredictionBox prediction={{ text: `${headlineOf(judged)} ${stuckSentence(judged)}` }} error={null} />
      {takesPolicy && (
        <Radio.Group label="Afterwards" value={policy} onChange={(value) => isPolicy(value) && setPolicy(value)}>
          <Stack gap={6} mt={4}>
            {policies.map((each) => (
              <Radio key={each} value={each} label={policyNames[each]} description={policyWords[each]} />
            ))}
          </Stack>
        </Radio.Group>
      )}
    </ReasonForm>
  );
}
