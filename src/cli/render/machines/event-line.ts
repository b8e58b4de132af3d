/** One change of the fleet as one line, for a log that cannot be redrawn. */
import type { WireEvent } from '../../connection/wire-event.ts';
import { changeLine } from '../allocations/progress.ts';
import { momentInFull } from '../text/duration.ts';
import { printable } from '../text/text.ts';

export interface EventLine {
  /** What it is about. */
  id: string;
  at: string;
  text: string;
}

const joined = (...pieces: (string | null | undefined)[]) => pieces.filter(Boolean).join('  ');

export function eventLine(event: WireEvent): EventLine {
  if (event.kind === 'node') {
    const { node_id, name, status, status_since, verdict } = event.node;
    return {
      id: node_id,
      at: momentInFull(status_since),
      text: joined(node_id, name, status, printable(verdict?.reason ?? '')),
    };
  }
  if (event.kind === 'allocation') {
    const { allocation_id, name, status, status_since, reason } = event.allocation;
    return {
      id: allocation_id,
      at: momentInFull(status_since),
      text: joined(allocation_id, name, status, printable(reason ?? '')),
    };
  }
  const { workflow_id, kind, status, progress } = event.operation;
  const step = changeLine({ progress, bar: null });
  return { id: workflow_id, at: momentInFull(progress.updated_at), text: joined(workflow_id, kind, status, step) };
}
