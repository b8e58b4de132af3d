/** The actions on an operation, and the statuses that allow them. */

import type { Operation } from '../../../../src/contract/operation.ts';
import { cancelOperation, retryOperation } from '../../api/queries/operations.ts';
import { humanize } from '../../ui/text.ts';
import { type Action, andSay } from '../actions/action.ts';

export const canCancel = ({ status }: Operation): boolean => status === 'queued' || status === 'running';
export const canRetryOperation = ({ status }: Operation): boolean => status === 'failed';

export const cancelAction = (operation: Operation): Action => ({
  title: `Cancel ${humanize(operation.kind).toLowerCase()}?`,
  says: 'It is asked to stop at its next step. What it has made so far is taken down by its own rules, not left behind.',
  button: 'Ask it to stop',
  destructive: true,
  run: ({ reason }, key) =>
    andSay('The operation was asked to stop', cancelOperation(operation.workflow_id, reason, key)),
});

export const retryOperationAction = (operation: Operation): Action => ({
  title: `Retry ${humanize(operation.kind).toLowerCase()}?`,
  says: 'It continues at the step that failed; what is done stays done.',
  button: 'Retry',
  run: ({ reason }, key) => andSay('The operation goes on', retryOperation(operation.workflow_id, reason, key)),
});
