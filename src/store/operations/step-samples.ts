/** What each step of each pool's operations took. People are told to expect what these say, and how many there are. */
import type { WorkflowId } from '../../base/ids.ts';
import { quantileShares } from '../../lifecycle/progress/expectation.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

/** The newest so many speak for a pool: it may have become quicker or slower since. */
const newest = 200;

export interface StepSample {
  workflow_id: WorkflowId;
  step: string;
  pool: string;
  seconds: number;
  at: Date;
}

/** Keeps what steps took that have just ended well. What failed or was not needed says nothing about how long it takes. */
export async function keepStepSamples(tx: Transaction, samples: StepSample[]): Promise<void> {
  if (samples.length === 0) return;
  await tx.query(
    `insert into step_samples (workflow_id, step, pool, seconds, at) select workflow_id, step, pool, seconds, at
     from jsonb_to_recordset($1::jsonb) as sample(workflow_id text, step text, pool text, seconds double precision, at timestamptz)
     on conflict do nothing`,
    [JSON.stringify(samples)],
    { often: true },
  );
}

/**
 * Writes into the steps of operations that are queued what their pools took for such steps so far. It is settled here, for good:
 * an operation whose expectations moved while it runs would have a bar that jumps.
 */
export async function expectByHistory(tx: Transaction, queued: WorkflowId[]): Promise<void> {
  await tx.query(
    `with planned as (
       select step.workflow_id, step.ordinal, step.name, operation.pool from steps step
       join operations operation on operation.workflow_id = step.workflow_id
       where step.workflow_id = any($1) and operation.pool is not null),
     history as (
       select asked.pool, asked.name, count(*)::int as samples,
         percentile_cont($2::double precision[]) within group (order by sample.seconds) as quantiles
       from (select distinct pool, name from planned) asked
       cross join lateral (select seconds from step_samples sample where sample.pool = asked.pool and sample.step = asked.name
         order by sample.at desc limit $3) sample
       group by asked.pool, asked.name)
     update steps set expected = jsonb_build_object('samples', history.samples, 'quantiles', to_jsonb(history.quantiles))
     from planned join history on history.pool = planned.pool and history.name = planned.name
     where steps.workflow_id = planned.workflow_id and steps.ordinal = planned.ordinal`,
    [queued, quantileShares, newest],
    { often: true },
  );
}

export async function forgetStepSamples(db: Queryable, before: Date): Promise<number> {
  return (await db.query('delete from step_samples where at < $1 returning 1', [before])).length;
}
