/** Publishes the progress of an executing operation. */
import { isDeepStrictEqual } from 'node:util';
import { secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { RecordedStepError } from '../../lifecycle/findings/launch-blame.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import type { Database } from '../pg/database.ts';
import { buildOperationFact, type Executor, updateAsExecutor } from './executions.ts';
import { selectMark, setProgress, setStepError } from './operation-progress.ts';
import type { PublishedProgress } from './operation-rows.ts';
import type { OperationDraft } from './operation-updates.ts';

/** The progress that an operation publishes for its present step. */
export type Publication = Pick<PublishedProgress, 'message' | 'mark' | 'parts'> & {
  retry_after_seconds?: number;
  /** Why the present step is stuck; null once it continues. */
  error?: RecordedStepError | null;
};

function recordStepError(draft: OperationDraft, error: RecordedStepError | null, now: Date): void {
  const step = draft.steps.find(({ status }) => status === 'running' || status === 'waiting');
  const next = error && { ...error, step: step ? phaseOf(step.name) : null };
  if (step && !isDeepStrictEqual(step.error, next)) setStepError(draft, step, next, now);
}

/**
 * An unchanged publication without a retry time is written again only after this time, because
 * polls repeat it.
 */
const repeatSeconds = 15;

const isDue = ({ updated_at }: PublishedProgress, now: Date) =>
  updated_at === undefined || now.getTime() - Date.parse(updated_at) >= repeatSeconds * 1000;

/**
 * Writes the progress to the row and to the evidence in one transaction. The live stream reads the
 * evidence, so each fact has the step and the number of steps.
 */
export const publishProgress = (
  db: Database,
  run: { workflow_id: WorkflowId },
  publication: Publication,
  executor: Executor,
  now: Date,
  layer: EvidenceLayer = 'workflow',
): Promise<void> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const { retry_after_seconds, error, ...fields } = draft.redact.value(publication);
    if (error !== undefined) recordStepError(draft, error, now);
    const { row } = draft;
    const { failing_since, failed_seconds } = row.progress;
    const { message, parts, advanced_at = now.toISOString(), patient_until } = row.progress;
    const hasAdvanced = selectMark(row.progress) !== selectMark(fields) || !isDeepStrictEqual(parts, fields.parts);
    const isNews = hasAdvanced || message !== fields.message;
    if (!isNews && retry_after_seconds === undefined && !isDue(row.progress, now)) return;
    const at = now.toISOString();
    const retry_at =
      retry_after_seconds === undefined ? undefined : secondsLater(now, retry_after_seconds).toISOString();
    const next: PublishedProgress = {
      ...fields,
      ...(retry_at && { retry_at }),
      failing_since,
      failed_seconds,
      updated_at: at,
      ...(hasAdvanced ? { advanced_at: at, patient_until: retry_at } : { advanced_at, patient_until }),
    };
    const { phase, step, total_steps, percent } = setProgress(draft, next, now);
    const data = { ...publication, phase, step, total_steps, percent };
    const summary = publication.message ?? 'progress';
    draft.facts.push(buildOperationFact(row, layer, 'operation.progress', summary, data, now));
  });
