/** Stores how long each step of a pool's operations took, and estimates durations from that. */
import type { WorkflowId } from '../../base/ids.ts';
import { quantileShares } from '../../lifecycle/progress/expectation.ts';
import type { Transaction } from '../pg/database.ts';

/** Only the newest samples count, because a pool may have become faster or slower. */
const maxSamples = 200;

export interface StepSample {
  workflow_id: WorkflowId;
  step: string;
  pool: string;
  seconds: number;
  at: Date;
}

/** Only steps that succeeded are sampled. */
export async function saveStepSamples(tx: Transaction, samples: StepSample[]): Promise<void> {
  if (samples.length === 0) return;
  await tx.query(
    `insert into step_samples (workflow_id, step, pool, seconds, at)
     select workflow_id, step, pool, seconds, at
     from jsonb_to_recordset($1::jsonb) as sample(
       workflow_id text, step text, pool text, seconds double precision, at timestamptz)
     on conflict do nothing`,
    [JSON.stringify(samples)],
    { prepared: true },
  );
}

/**
 * Sets the expected durations of queued steps from the samples of their pool. They are fixed when
 * the operation is queued, because the progress bar would jump if they changed while it runs.
 */
export async function setExpectedDurations(tx: Transaction, queued: WorkflowId[]): Promise<void> {
  await tx.query(
    `with planned as (
       select step.workflow_id, step.ordinal, step.name, operation.pool
       from steps step
       join operations operation on operation.workflow_id = step.workflow_id
       where step.workflow_id = any($1)
         and operation.pool is not null),
     history as (
       select
         planned_step.pool,
         planned_step.name,
         count(*)::int as samples,
         percentile_cont($2::double precision[]) within group (order by sample.seconds) as quantiles
       from (select distinct pool, name from planned) planned_step
       cross join lateral (
         select seconds
         from step_samples sample
         where sample.pool = planned_step.pool
           and sample.step = planned_step.name
         order by sample.at desc
         limit $3) sample
       group by planned_step.pool, planned_step.name)
     update steps set
       expected = jsonb_build_object('samples', history.samples, 'quantiles', to_jsonb(history.quantiles))
     from planned
     join history on history.pool = planned.pool and history.name = planned.name
     where steps.workflow_id = planned.workflow_id
       and steps.ordinal = planned.ordinal`,
    [queued, quantileShares, maxSamples],
    { prepared: true },
  );
}
