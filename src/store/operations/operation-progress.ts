/** The progress of an operation as it goes out, made from its rows: the same object wherever a person meets it. */
import type { Progress } from '../../contract/progress.ts';
import { type ComputedProgress, noEstimate, progressOf } from '../../lifecycle/progress/progress.ts';
import { createShownPercent } from '../../lifecycle/progress/shown-percent.ts';
import type { OperationRow, PublishedProgress, StepRow } from './operation-rows.ts';
import { amendOperation, type Page } from './operation-updates.ts';

/** What of a publication is advance if it changes. */
export const reachedIn = ({ mark, message }: Pick<PublishedProgress, 'mark' | 'message'>): string | undefined =>
  mark ?? message;

const dateOf = (text: string | undefined) => (text === undefined ? null : new Date(text));

const computed = (row: OperationRow, steps: readonly StepRow[], now: Date): ComputedProgress =>
  progressOf({
    ...row,
    steps,
    advanced_at: dateOf(row.progress.advanced_at),
    patient_until: dateOf(row.progress.patient_until),
    retry_at: dateOf(row.progress.retry_at),
    now,
  });

/** Of this process, whichever of its readers asks. */
const shown = createShownPercent();

/** A try that failed and is followed by another is no failure: what went wrong is what it says meanwhile. */
function messageOf(row: OperationRow, steps: readonly StepRow[], progress: ComputedProgress): string {
  const waiting = steps.find((step) => step.status === 'waiting');
  const said = row.error?.message ?? waiting?.error?.message ?? row.progress.message;
  return [said, noEstimate(row.status, progress)].filter(Boolean).join(' · ');
}

export function progressWire(row: OperationRow, steps: readonly StepRow[], now: Date): Progress {
  const progress = computed(row, steps, now);
  return {
    workflow_id: row.workflow_id,
    kind: row.kind,
    status: row.status,
    ...progress,
    percent: shown.raise(row.workflow_id, progress.percent),
    message: messageOf(row, steps, progress),
    started_at: row.started_at?.toISOString() ?? null,
    updated_at: row.progress.updated_at ?? row.created_at.toISOString(),
    parts: row.progress.parts ?? [],
    ...(row.error && { error: row.error }),
  };
}

/**
 * Settles how far an operation is, with what changes what it says: what was told then stands on its row, whatever becomes of this
 * process, of its clock and of the step.
 */
export function settleProgress(page: Page, said: PublishedProgress, now: Date): ComputedProgress {
  const { row, steps } = page;
  const progress = computed({ ...row, progress: said }, steps, now);
  const percent = shown.raise(row.workflow_id, progress.percent);
  amendOperation(page, { progress: said, percent: Math.max(row.percent, percent) });
  return { ...progress, percent };
}
