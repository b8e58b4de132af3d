/** The actions on an operation, and the statuses in which each is allowed. */

import type { Operation } from '../../../../src/contract/operation.ts';
import { cancelOperation, retryOperation } from '../../api/queries/operations.ts';
import { humanize } from '../../ui/text.ts';
import { type Action, awaitWithNotice } from '../actions/action.ts';

export const canCancel = ({ status }: Operation): boolean => status === 'queued' || status === 'running';
export const canRetryOperation = ({ status }: Operation): boolean => status === 'failed';

export const cancelAction = (operation: Operation): Action => ({
  title: `Cancel ${humanize(operation.kind).toLowerCase()}?`,
  description: 'The operation stops at its next step and takes down what it has created so far.',
  button: 'Cancel operation',
  destructive: true,
  run: ({ reason }, key) => awaitWithNotice('Cancel requested', cancelOperation(operation.workflow_id, reason, key)),
});

export const retryOperationAction = (operation: Operation): Action => ({
  title: `Retry ${humanize(operation.kind).toLowerCase()}?`,
  description: 'The operation continues at the step that failed. Finished steps are not repeated.',
  button: 'Retry',
  run: ({ reason }, key) => awaitWithNotice('Retry requested', retryOperation(operation.workflow_id, reason, key)),
});
