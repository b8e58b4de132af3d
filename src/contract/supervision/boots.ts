/** Recorded boots of a pool on the wire: durations and outcomes of each phase, and statistics. */
import { type Static, Type } from 'typebox';
import { strata } from '../../lifecycle/boots/learned-budget.ts';
import { budgetSources } from '../node.ts';
import { Moment, nullable, PositiveSeconds, Reason, strict, Timestamp } from '../primitives.ts';

const SamplePhase = Type.Enum(['provision', 'start'], {
  description: 'provision: until the machine registers. start: from then until it is ready.',
});

export const BootSample = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: Type.String(),
    seconds: Type.Number({
      description: 'How long the phase took; for timed_out and cancelled boots, a lower bound.',
    }),
    outcome: Type.Enum(['completed', 'late', 'timed_out', 'cancelled'], {
      description:
        'completed: the machine arrived in time. late: it arrived after it had failed. timed_out: it failed at its deadline and has not arrived. cancelled: something else ended the phase.',
    }),
    lateness_seconds: nullable(Type.Number({ description: 'late: how long after its failure the machine arrived.' })),
    budget_seconds: nullable(Type.Number({ description: 'The budget of this boot.' })),
    at: Timestamp,
  },
  { $id: 'BootSample' },
);
export type BootSample = Static<typeof BootSample>;

/** Null if unknown. */
const Share = nullable(Type.Number({ minimum: 0, maximum: 1 }));

/** The 95 % confidence band of a quantile. */
const QuantileBand = Type.Object({
  low_seconds: nullable(Type.Number({ description: 'Null before the first boot completes.' })),
  high_seconds: nullable(
    Type.Number({ description: 'Null if too few boots are recorded to bound this quantile from above.' }),
  ),
});

const Learning = Type.Object({
  aim_seconds: Type.Number({ description: 'The target that the budget moves towards.' }),
  because: Type.String({ description: 'One sentence: why the budget has this target, or why nothing was learned.' }),
  stratum: nullable(
    Type.Enum([...strata], {
      description: 'The group of boots that the budget is learned from; null if nothing is learned.',
    }),
  ),
  completions: Type.Integer({ description: 'The number of completed boots that the budget is learned from.' }),
  considered_at: Timestamp,
  frozen: nullable(
    Type.String({ description: 'Why learning is paused now, for example because the brake holds verdicts.' }),
  ),
});

const BootPhase = Type.Object({
  phase: SamplePhase,
  budget_seconds: Type.Number({ description: 'The budget of the next boot, unless its allocation requests another.' }),
  budget_source: Type.Enum([...budgetSources]),
  rescue_seconds: Type.Number({ description: 'How long after its failure a machine can still be rescued.' }),
  policy: Type.Enum(['fixed', 'learned']),
  /** Null for a fixed policy, and before the first evaluation. */
  learning: nullable(Learning),
  p50_seconds: nullable(
    Type.Number({ description: 'The median of the boots that complete; null before the first one.' }),
  ),
  p90_seconds: nullable(Type.Number()),
  p99_seconds: nullable(Type.Number()),
  bands: Type.Object({ p50: QuantileBand, p90: QuantileBand, p99: QuantileBand }),
  predicted_false_kill_share: nullable(
    Type.Object(
      { share: Type.Number(), low: Type.Number(), high: Type.Number() },
      { description: 'The share of completing boots that take longer than the budget, with its 95 % band.' },
    ),
  ),
  since_change: Type.Object(
    {
      at: Timestamp,
      boots: Type.Integer(),
      late: Type.Integer({ description: 'Boots that arrived after they had failed.' }),
      killed: Type.Integer({
        description:
          'Boots that failed at their deadline and never arrived. They are not false kills, whose machines did arrive.',
      }),
    },
    { description: 'Outcomes since the budget last changed.' },
  ),
  running: Type.Integer({
    description: 'Boots in progress; `survival` counts their time so far as a lower bound.',
  }),
  survival: Type.Array(
    Type.Object({ seconds: Type.Number(), share: Type.Number(), low: Type.Number(), high: Type.Number() }),
    {
      description:
        'The share of boots that have not arrived after `seconds`; with 95 % confidence it is between low and high.',
    },
  ),
  samples: Type.Array(BootSample, { description: 'The newest ones, newest first.' }),
});
export type BootPhase = Static<typeof BootPhase>;

export const PoolBoots = Type.Object(
  {
    pool: Type.String(),
    make: Type.Object(
      { generation: Type.Integer(), since: Timestamp, image: nullable(Type.String()) },
      { description: 'The pool generation since which image, spec and class have not changed.' },
    ),
    phases: Type.Array(BootPhase),
  },
  { $id: 'PoolBoots' },
);
export type PoolBoots = Static<typeof PoolBoots>;

export const WhatIfRequest = Type.Object(
  {
    phase: Type.Optional(SamplePhase),
    budget_seconds: PositiveSeconds,
    since: Type.Optional(Moment),
  },
  { ...strict, $id: 'WhatIfRequest' },
);

const FalseKill = Type.Object({
  ...BootSample.properties,
  over_seconds: Type.Number({ description: 'How much the boot exceeded the budget.' }),
  rescued: Type.Boolean({
    description: 'Whether the machine arrived within the rescue window that this budget would have given it.',
  }),
});

const StuckBoot = Type.Object({
  ...BootSample.properties,
  sooner_seconds: Type.Number({ description: 'How much sooner the boot would have failed; negative: later.' }),
});

export const WhatIf = Type.Object(
  {
    pool: Type.String(),
    phase: SamplePhase,
    budget_seconds: Type.Number(),
    rescue_seconds: Type.Number(),
    boots: Type.Integer({ description: 'The number of recorded boots.' }),
    arrived_count: Type.Integer({
      description: 'How many of them arrived, in time or late. If none did, nothing is known about healthy boots.',
    }),
    oldest_at: nullable(Timestamp),
    false_kills: Type.Array(FalseKill, {
      description: 'Boots that would have failed although they arrived, largest excess over the budget first.',
    }),
    false_kill_count: Type.Integer({ description: 'The number of all of them; the list is limited.' }),
    rescued_count: Type.Integer(),
    stuck: Type.Array(StuckBoot, {
      description: 'Boots that really failed and never arrived, longest wait first.',
    }),
    stuck_count: Type.Integer(),
    stuck_found_sooner_seconds: nullable(Type.Number({ description: 'The average; negative: later.' })),
    undecided_count: Type.Integer({
      description:
        'Boots that exceeded this budget and ended for another reason; whether they would have arrived is unknown.',
    }),
    predicted_false_kill_share: Share,
    current: Type.Object(
      { budget_seconds: Type.Number(), budget_source: Type.Enum([...budgetSources]), false_kill_count: Type.Integer() },
      { description: 'The same boots with the budget in force.' },
    ),
  },
  { $id: 'WhatIf' },
);
export type WhatIf = Static<typeof WhatIf>;

export const BudgetRequest = Type.Object(
  {
    phase: Type.Optional(SamplePhase),
    budget_seconds: PositiveSeconds,
    policy: Type.Optional(
      Type.Enum(['fixed', 'learned'], {
        description: 'learned: the budget follows the boots from now on. Omitted: unchanged.',
      }),
    ),
    reason: Reason,
  },
  { ...strict, $id: 'BudgetRequest' },
);
