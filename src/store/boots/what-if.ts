/**
 * Computes in SQL how every recorded boot of a pool would have ended with another budget.
 * lifecycle/boots/what-if.ts computes the same in memory.
 */
import type { BootSample } from '../../contract/supervision/boots.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import type { WhatIfQuestion } from '../../lifecycle/boots/what-if.ts';
import type { Queryable } from '../pg/database.ts';
import { isMeasured, sampleFields, toWireSample } from './boot-samples.ts';

export interface WhatIfQuery extends WhatIfQuestion {
  pool: string;
  phase: SamplePhase;
  since: Date | null;
  /** The present budget, for comparison. */
  current_seconds: number;
}

interface WhatIfCounts {
  boots: number;
  arrived_count: number;
  false_kill_count: number;
  rescued_count: number;
  stuck_count: number;
  stuck_found_sooner_seconds: number | null;
  undecided_count: number;
  current_false_kill_count: number;
}

/** The most boots in each list. The counts are complete. */
const maxListed = 500;
/** Below every duration. */
const anyDuration = -1;

const hasCompleted = `outcome in ('completed', 'late')`;
const isOfPool = `pool = $1 and phase = $2 and ${isMeasured}`;
const buildSinceClause = ({ since }: WhatIfQuery) =>
  since ? { values: [since], sinceClause: 'and at >= $4' } : { values: [], sinceClause: '' };

type Row = Omit<BootSample, 'at'> & { at: Date };

/** Selects the longest boots by one index scan per outcome. */
const selectLongestBoots = (outcomes: readonly string[], sinceClause: string) =>
  outcomes
    .map(
      (outcome) => `
        (select ${sampleFields}
         from boot_samples
         where ${isOfPool}
           and outcome = '${outcome}'
           and seconds > $3
           ${sinceClause}
         order by seconds desc
         limit ${maxListed})`,
    )
    .join(' union all ');

async function listBoots(db: Queryable, question: WhatIfQuery, outcomes: readonly string[], over_seconds: number) {
  const { values, sinceClause } = buildSinceClause(question);
  const rows = await db.query<Row>(
    `select *
     from (${selectLongestBoots(outcomes, sinceClause)}) boot
     order by seconds desc
     limit ${maxListed}`,
    [question.pool, question.phase, over_seconds, ...values],
  );
  return rows.map(toWireSample);
}

export async function computeWhatIf(db: Queryable, question: WhatIfQuery) {
  const { pool, phase, budget_seconds, rescue_seconds, current_seconds, since } = question;
  const [counted] = await db.query<WhatIfCounts>(
    `select
       count(*)::int as boots,
       (count(*) filter (where ${hasCompleted}))::int as arrived_count,
       (count(*) filter (where ${hasCompleted} and seconds > $3))::int as false_kill_count,
       (count(*) filter (where ${hasCompleted} and seconds > $3 and seconds - $3 <= $4))::int as rescued_count,
       (count(*) filter (where outcome = 'timed_out'))::int as stuck_count,
       avg(seconds - $3) filter (where outcome = 'timed_out') as stuck_found_sooner_seconds,
       (count(*) filter (where outcome = 'cancelled' and seconds > $3))::int as undecided_count,
       (count(*) filter (where ${hasCompleted} and seconds > $5))::int as current_false_kill_count
     from boot_samples
     where ${isOfPool}
       ${since ? 'and at >= $6' : ''}`,
    [pool, phase, budget_seconds, rescue_seconds, current_seconds, ...(since ? [since] : [])],
  );
  const [oldest] = await db.query<{ at: Date }>(
    `select at
     from boot_samples
     where ${isOfPool}
       ${since ? 'and at >= $3' : ''}
     order by at
     limit 1`,
    [pool, phase, ...(since ? [since] : [])],
  );
  const killed = await listBoots(db, question, ['completed', 'late'], budget_seconds);
  const stuck = await listBoots(db, question, ['timed_out'], anyDuration);
  if (!counted) throw new Error('the count returned no row');
  return {
    ...counted,
    oldest_at: oldest?.at.toISOString() ?? null,
    false_kills: killed.map((boot) => {
      const over_seconds = boot.seconds - budget_seconds;
      return { ...boot, over_seconds, rescued: over_seconds <= rescue_seconds };
    }),
    stuck: stuck.map((boot) => ({ ...boot, sooner_seconds: boot.seconds - budget_seconds })),
  };
}
