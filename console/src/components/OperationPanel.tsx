/** The operation that matters now on a page about something else: its banner, and the way to all of it. */
import { useQuery } from '@tanstack/react-query';
import type { Progress } from '../../../src/contract/progress.ts';
import { operationQuery } from '../api/operations.ts';
import { ProgressBanner } from './ProgressBanner.tsx';

interface Props {
  workflow_id: string;
  /** Known already, so that the banner stands before the operation is read. */
  progress?: Progress | null;
}

export function OperationPanel({ workflow_id, progress }: Props) {
  const { data } = useQuery(operationQuery(workflow_id));
  const shown = data?.progress ?? progress;
  return shown ? <ProgressBanner progress={shown} steps={data?.steps} /> : null;
}
