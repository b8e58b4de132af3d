/** The operation on a page about something else: its banner and a link. */
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
  const shown = data?.progress ?? progress;
  // If you watched it end, the banner stays; later visits show one line.
  const [watched, setWatched] = useState(false);
  if (shown && !hasEnded(shown) && !watched) setWatched(true);
  if (data?.status === 'succeeded' && !watched) return <DoneLine operation={data} />;
  return shown ? <ProgressBanner progress={shown} steps={data?.steps} /> : null;
}
