/** The operation on the page of a node or allocation: its banner, or one line after success. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Progress } from '../../../../src/contract/progress.ts';
import { operationQuery } from '../../api/queries/operations.ts';
import { DoneLine } from './DoneLine.tsx';
import { ProgressBanner } from './ProgressBanner.tsx';
import { hasEnded } from './progress.ts';

interface Props {
  workflow_id: string;
  /** Shown until the operation is read. */
  progress?: Progress | null;
}

export function OperationPanel({ workflow_id, progress }: Props) {
  const { data } = useQuery(operationQuery(workflow_id));
  const currentProgress = data?.progress ?? progress;
  // While you watch an operation end, the banner stays. Later visits show one line.
  const [sawRunning, setSawRunning] = useState(false);
  if (currentProgress && !hasEnded(currentProgress) && !sawRunning) setSawRunning(true);
  if (data?.status === 'succeeded' && !sawRunning) return <DoneLine operation={data} />;
  return currentProgress ? <ProgressBanner progress={currentProgress} steps={data?.steps} /> : null;
}
