/** Shows how long an operation took, or has taken so far. */
import type { Operation } from '../../../../src/contract/operation.ts';
import { useTicking } from '../../api/server-clock.ts';
import { formatElapsed, formatPrecise } from './durations.ts';

export function Took({ operation: { started_at, finished_at } }: { operation: Operation }) {
  const words = useTicking((nowMs) => {
    if (!started_at) return '';
    const from = Date.parse(started_at);
    return finished_at ? formatPrecise((Date.parse(finished_at) - from) / 1000) : formatElapsed((nowMs - from) / 1000);
  });
  return <span className="tabular">{words}</span>;
}
