/** The one call by which an executing operation says how it stands. */
import { isDeepStrictEqual } from 'node:util';
import { secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { RecordedStepError } from '../../lifecycle/findings/launch-blame.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import type { Database } from '../pg/database.ts';
import { type Executor, factOfOperation, updateAsExecutor } from './executions.ts';
import { reachedIn, settleProgress } from './operation-progress.ts';
import type { PublishedProgress } from './operation-rows.ts';
import { amendStep, type Page } from './operation-updates.ts';

/** What an operation says of itself between its steps. */
export type Publication = Pick<PublishedProgress, 'message' | 'mark' | 'parts'> & {
  retry_after_seconds?: number;
  /** What keeps its present step from going on; null once nothing does. */
  error?: RecordedStepError | null;
};

function noteError(page: Page, error: RecordedStepError | null): void {
  const step = page.steps.find(({ status }) => status === 'running' || status === 'waiting');
  const next = error && { ...error, step: step ? phaseOf(step.name) : null };
  if (step && !isDeepStrictEqual(step.error, next)) amendStep(page, step, { error: next });
}

/** A driver that is asked again and again mostly answers the same: that is told again only so often. */
const repeatSeconds = 15;

const isDue = ({ updated_at }: PublishedProgress, now: Date) =>
  updated_at === undefined || now.getTime() - Date.parse(updated_at) >= repeatSeconds * 1000;

/**
 * One call publishes to the durable row, the evidence and, through it, the live stream, in one transaction. Every publication
 * carries the step it belongs to and how many there are.
 */
export const publishProgress = (
  db: Database,
  run: { workflow_id: WorkflowId },
  said: Publication,
  executor: Executor,
  now: Date,
  layer: EvidenceLayer = 'workflow',
): Promise<void> =>
  updateAsExecutor(db, run, executor, (page) => {
    const { row } = page;
    const { retry_after_seconds, error, ...words } = page.redact.value(said);
    if (error !== undefined) noteError(page, error);
    const { message, parts, advanced_at = now.toISOString(), patient_until } = row.progress;
    const advanced = reachedIn(row.progress) !== reachedIn(words) || !isDeepStrictEqual(parts, words.parts);
    const news = advanced || message !== words.message;
    if (!news && retry_after_seconds === undefined && !isDue(row.progress, now)) return;
    const at = now.toISOString();
    const retry_at =
      retry_after_seconds === undefined ? undefined : secondsLater(now, retry_after_seconds).toISOString();
    const next: PublishedProgress = {
      ...words,
      ...(retry_at && { retry_at }),
      updated_at: at,
      ...(advanced ? { advanced_at: at, patient_until: retry_at } : { advanced_at, patient_until }),
    };
    const { phase, step, total_steps, percent } = settleProgress(page, next, now);
    const data = { ...said, phase, step, total_steps, percent };
    page.facts.push(factOfOperation(row, layer, 'operation.progress', said.message ?? 'progress', data, now));
  });
