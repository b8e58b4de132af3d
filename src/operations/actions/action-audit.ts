/** Every action that was done is told once, with who did it and why, whatever else comes of it. */
import type { KnownIds } from '../../base/ids.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Queryable } from '../../store/pg/database.ts';
import type { Caller } from '../runtime/caller.ts';
import type { AskedAction, Prediction } from './acting.ts';

export const tellAction = (
  db: Queryable,
  action: string,
  { target_id, ...ids }: KnownIds & { target_id: string },
  { reason }: AskedAction,
  { actor, correlation_id }: Caller,
  { says, workflow_id, data }: Prediction,
  at: Date,
): Promise<void> =>
  recordEvidence(db, [
    {
      at,
      layer: 'operator',
      kind: 'action.done',
      summary: `${action}: ${says} (${reason})`,
      data: { action, target_id, reason, says, ...data },
      actor,
      ...ids,
      correlation_id,
      workflow_id: workflow_id ?? null,
    },
  ]);
