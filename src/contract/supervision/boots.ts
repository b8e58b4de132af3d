/** Recorded boots of a pool on the wire: the duration and outcome of each phase, and statistics. */
import { type Static, Type } from 'typebox';
import { strata } from '../../lifecycle/boots/learned-budget.ts';
import { budgetSources } from '../node.ts';
import { Moment, nullable, PositiveSeconds, Reason, strict, Timestamp } from '../primitives.ts';

const SamplePhase = Type.Enum(['provision', 'start'], {
  description: 'provision: until it registers. start: from there until it is ready.',
});

export const BootSample = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: Type.String(),
    seconds: Type.Number(),
    outcome: Type.Enum(['completed', 'late', 'timed_out', 'cancelled'], {
      description: 'timed_out and cancelled: it would have taken longer than this.',
    }),
    lateness_seconds: nullable(Type.Number({ description: 'late: how long after it had been given up.' })),
    budget_seconds: nullable(Type.Number({ description: 'The budget that it had.' })),
    at: Timestamp,
  },
  { $id: 'BootSample' },
);
export type BootSample = Static<typeof BootSample>;

/** Null if unknown. */
const Share = nullable(Type.Number({ minimum: 0, maximum: 1 }));

/** The 95 % confidence band of a quantile. */
const QuantileBand = Type.Object({
  low_seconds: nullable(Type.Number()),
  high_seconds: nullable(Type.Number({ description: 'Null: the boots on record do not reach so far.' })),
});

const Learning = Type.Object({
  aim_seconds: Type.Number({ description: 'Where the budget is going.' }),
  because: Type.String({ description: 'What the boots taught, or why nothing was learned, in one sentence.' }),
  stratum: nullable(Type.Enum([...strata], { description: 'Whose boots were asked; null where nothing is learned.' })),
  completions: Type.Integer({ description: 'How many completed boots it rests on.' }),
  considered_at: Timestamp,
  frozen: nullable(Type.String({ description: 'Why nothing is learned at this moment: the brake holds.' })),
});

const BootPhase = Type.Object({
  phase: SamplePhase,
  budget_seconds: Type.Number({ description: 'What the next boot gets, unless its allocation says otherwise.' }),
  budget_source: Type.Enum([...budgetSources]),
  rescue_seconds: Type.Number({ description: 'How long after being given up it may still arrive.' }),
  policy: Type.Enum(['fixed', 'learned']),
  /** Null for a fixed policy, and before the first evaluation. */
  learning: nullable(Learning),
  p50_seconds: nullable(Type.Number({ description: 'Of the boots that complete; null before one has.' })),
  p90_seconds: nullable(Type.Number()),
  p99_seconds: nullable(Type.Number()),
  bands: Type.Object({ p50: QuantileBand, p90: QuantileBand, p99: QuantileBand }),
  predicted_false_kill_share: nullable(
    Type.Object(
      { share: Type.Number(), low: Type.Number(), high: Type.Number() },
      { description: 'Of the boots that complete, the share that takes longer than the budget, with its 95 % band.' },
    ),
  ),
  since_change: Type.Object(
    { at: Timestamp, boots: Type.Integer(), late: Type.Integer(), killed: Type.Integer() },
    { description: 'What happened since the budget last changed. Killed: given up and never seen again.' },
  ),
  running: Type.Integer({
    description: 'Boots on their way now; the curve counts each as longer than it has taken so far.',
  }),
  survival: Type.Array(
    Type.Object({ seconds: Type.Number(), share: Type.Number(), low: Type.Number(), high: Type.Number() }),
    {
      description:
        'From `seconds` on, this share of boots is still on its way; with 95 % confidence between low and high.',
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
      { description: 'What the pool makes now: since when its image, spec and class are what they are.' },
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
  over_seconds: Type.Number({ description: 'How far over the budget it arrived.' }),
  rescued: Type.Boolean({ description: 'It came inside the rescue window, so it would have been taken back.' }),
});

const StuckBoot = Type.Object({
  ...BootSample.properties,
  sooner_seconds: Type.Number({ description: 'So much sooner it would have been found; below zero: later.' }),
});

export const WhatIf = Type.Object(
  {
    pool: Type.String(),
    phase: SamplePhase,
    budget_seconds: Type.Number(),
    rescue_seconds: Type.Number(),
    boots: Type.Integer({ description: 'How many are on record.' }),
    oldest_at: nullable(Timestamp),
    false_kills: Type.Array(FalseKill, {
      description: 'Given up though they arrived, the furthest over the budget first.',
    }),
    false_kill_count: Type.Integer({ description: 'All of them; the list is bounded.' }),
    rescued_count: Type.Integer(),
    stuck: Type.Array(StuckBoot, {
      description: 'Given up in truth and never seen again, the longest waited for first.',
    }),
    stuck_count: Type.Integer(),
    stuck_found_sooner_seconds: nullable(Type.Number({ description: 'In the mean; below zero: later.' })),
    undecided_count: Type.Integer({
      description: 'Ended by others when already past this budget: whether they would have come nobody knows.',
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
      Type.Enum(['fixed', 'learned'], { description: 'Learned: boots move it from here on. Left out: as it was.' }),
    ),
    reason: Reason,
  },
  { ...strict, $id: 'BudgetRequest' },
);
