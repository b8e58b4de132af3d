/** A restoration: the state of servers that only observe, because their database was restored. */
import { type Static, Type } from 'typebox';
import { restoredDifferenceKinds } from '../../lifecycle/findings/restored-differences.ts';
import { Actor } from '../evidence/evidence.ts';
import { nullable, pageOf, paging, Reason, strict, Timestamp } from '../primitives.ts';

export const RestorationDifference = Type.Object(
  {
    kind: Type.Enum([...restoredDifferenceKinds]),
    subject: Type.String({ description: 'The node, or the resource of a machine that has no node here.' }),
    driver: nullable(Type.String()),
    host: nullable(Type.String()),
    node_id: nullable(Type.String()),
    node_instance_id: nullable(Type.String()),
    seen: Type.String({ description: 'What was seen, for people.' }),
    first_seen_at: Timestamp,
    seen_at: Timestamp,
  },
  { $id: 'RestorationDifference' },
);
export type RestorationDifference = Static<typeof RestorationDifference>;

export const RestorationState = Type.Object(
  {
    observing: Type.Boolean({ description: 'The servers only observe until a person ends the restoration.' }),
    newest: nullable(
      Type.Object({
        sign: Type.String({ description: 'What showed that the database was restored.' }),
        began_at: Timestamp,
        remembers_until: nullable(
          Type.String({ description: 'When the last server before the restore stored heartbeats.' }),
        ),
        comparing: Type.Boolean({ description: 'Some machines have not been compared with their rows yet.' }),
        inspected_at: nullable(
          Type.String({ description: 'When every machine that can be inspected had been inspected once.' }),
        ),
        ended_at: nullable(Timestamp),
        ended_by: nullable(Actor),
        end_reason: nullable(Type.String()),
        differences: Type.Object(
          {
            changed_hands: Type.Integer(),
            came: Type.Integer(),
            gone: Type.Integer(),
            unconfirmed: Type.Integer(),
            maybe_used: Type.Integer(),
          },
          { description: 'How many machines differ, by kind.' },
        ),
      }),
    ),
  },
  { $id: 'RestorationState' },
);
export type RestorationState = Static<typeof RestorationState>;

export const RestorationEndRequest = Type.Object(
  {
    reason: Reason,
    trust_free: Type.Optional(
      Type.Boolean({
        description: 'Nothing was allocated after the backup, so free machines are not quarantined.',
      }),
    ),
    trust_unconfirmed: Type.Optional(
      Type.Boolean({
        description: 'No machine that cannot be asked changed hands after the backup, so these are not quarantined.',
      }),
    ),
    force: Type.Optional(Type.Boolean({ description: 'End it although not every machine could be inspected.' })),
  },
  { ...strict, $id: 'RestorationEndRequest' },
);
export type RestorationEndRequest = Static<typeof RestorationEndRequest>;

export const RestorationEnded = Type.Object(
  { ended_at: Timestamp, quarantined: Type.Integer({ description: 'How many nodes were quarantined.' }) },
  { $id: 'RestorationEnded' },
);

export const RestorationDifferencesQuery = Type.Object(paging, strict);
export const RestorationDifferencePage = pageOf(RestorationDifference, 'RestorationDifferencePage');
