/** Computes the progress of an operation from its rows, so that all surfaces show the same. */
import { secondsBetween } from '../../base/clock.ts';
import type { Progress } from '../../contract/progress.ts';
import { createPercentFloor } from '../../lifecycle/progress/percent-floor.ts';
import { type ComputedProgress, explainNoEstimate, progressOf } from '../../lifecycle/progress/progress.ts';
import type { OperationRow, PublishedProgress, StepRow } from './operation-rows.ts';
import { amendOperation, amendStep, type DraftStep, type OperationDraft } from './operation-updates.ts';

/** Returns the text whose change counts as an advance. */
export const selectMark = ({ mark, message }: Pick<PublishedProgress, 'mark' | 'message'>): string | undefined =>
  mark ?? message;

const parseDate = (text: string | undefined) => (text === undefined ? null : new Date(text));

const computeProgress = (row: OperationRow, steps: readonly StepRow[], now: Date): ComputedProgress =>
  progressOf({
    ...row,
    steps,
    advanced_at: parseDate(row.progress.advanced_at),
    patient_until: parseDate(row.progress.patient_until),
    retry_at: parseDate(row.progress.retry_at),
    failing_since: parseDate(row.progress.failing_since),
    failed_seconds: row.progress.failed_seconds ?? 0,
    now,
  });

/** Shared by all readers of this process, so that none of them sees the percentage go down. */
const percentFloor = createPercentFloor();

/**
 * An error hides the published message: that of the operation, or that of a step that waits for its
 * retry. A step that tries again shows the error of its last try until it publishes a message.
 */
function messageOf(row: OperationRow, steps: readonly StepRow[], progress: ComputedProgress): string {
  const waiting = steps.find((step) => step.status === 'waiting');
  const message = row.error?.message ?? waiting?.error?.message ?? row.progress.message ?? progress.failing?.message;
  const current = steps.find(({ ordinal }) => ordinal === progress.step);
  return [message, explainNoEstimate(row.status, current?.name ?? '', progress)].filter(Boolean).join(' · ');
}

export function progressWire(row: OperationRow, steps: readonly StepRow[], now: Date): Progress {
  const progress = computeProgress(row, steps, now);
  return {
    workflow_id: row.workflow_id,
    kind: row.kind,
    status: row.status,
    ...progress,
    percent: percentFloor.raise(row.workflow_id, progress.percent),
    message: messageOf(row, steps, progress),
    started_at: row.started_at?.toISOString() ?? null,
    updated_at: row.progress.updated_at ?? row.created_at.toISOString(),
    parts: row.progress.parts ?? [],
    ...(row.error && { error: row.error }),
  };
}

/**
 * Stores the percentage together with the publication, so that neither a restart nor another step
 * nor a clock that is set back lowers it.
 */
export function setProgress(draft: OperationDraft, published: PublishedProgress, now: Date): ComputedProgress {
  const { row, steps } = draft;
  const progress = computeProgress({ ...row, progress: published }, steps, now);
  const percent = percentFloor.raise(row.workflow_id, progress.percent);
  amendOperation(draft, { progress: published, percent: Math.max(row.percent, percent) });
  return { ...progress, percent };
}

/**
 * Sets the error of the current step, and records how long the step fails. Stores the percentage of
 * the first failure, which stays until the step recovers.
 */
export function setStepError(draft: OperationDraft, step: DraftStep, error: StepRow['error'], now: Date): void {
  const { failing_since, failed_seconds = 0, ...progress } = draft.row.progress;
  const begins = error !== null && failing_since === undefined;
  if (begins) setProgress(draft, { ...progress, failing_since: now.toISOString(), failed_seconds }, now);
  else if (error === null && failing_since !== undefined) {
    const seconds = Math.max(0, secondsBetween(new Date(failing_since), now));
    amendOperation(draft, { progress: { ...progress, failed_seconds: failed_seconds + seconds } });
  }
  amendStep(draft, step, { error });
}
