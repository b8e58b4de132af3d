/** The recorded boots of a pool on the wire: how long each phase took, how it ended, and what that comes to. */
import { type Static, Type } from 'typebox';
import { budgetSources } from './node.ts';
import { nullable, Timestamp } from './primitives.ts';

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

const BootPhase = Type.Object({
  phase: Type.Enum(['provision', 'start']),
  budget_seconds: Type.Number({ description: 'What the next boot gets, unless its allocation says otherwise.' }),
  budget_source: Type.Enum([...budgetSources]),
  p50_seconds: nullable(Type.Number({ description: 'Of the boots that complete; null before one has.' })),
  p90_seconds: nullable(Type.Number()),
  p99_seconds: nullable(Type.Number()),
  survival: Type.Array(Type.Object({ seconds: Type.Number(), share: Type.Number() }), {
    description: 'From `seconds` on, this share of boots is still on its way.',
  }),
  samples: Type.Array(BootSample, { description: 'The newest ones, newest first.' }),
});
export type BootPhase = Static<typeof BootPhase>;

export const PoolBoots = Type.Object({ pool: Type.String(), phases: Type.Array(BootPhase) }, { $id: 'PoolBoots' });
export type PoolBoots = Static<typeof PoolBoots>;
