/**
 * The whole fleet in a compact, columnar form with repeated values stored once per page. Built for
 * a million nodes.
 */
import { type Static, Type } from 'typebox';
import { nodeStatusNames } from '../../lifecycle/model/states.ts';
import { Labels, Name, nullable, strict } from '../primitives.ts';

export const maxFleetNodes = 20_000;

export const FleetQuery = Type.Object(
  {
    pool: Type.Optional(Name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxFleetNodes })),
    cursor: Type.Optional(Type.String({ maxLength: 512 })),
  },
  strict,
);

const indexColumn = (description: string) => Type.Array(Type.Integer({ minimum: 0 }), { description });
const epoch = 'milliseconds since 1970, UTC';

export const FleetPage = Type.Object(
  {
    statuses: Type.Array(Type.Enum([...nodeStatusNames]), { description: 'The statuses that occur on this page.' }),
    pools: Type.Array(Type.String()),
    zones: Type.Array(nullable(Type.String())),
    labels: Type.Array(Labels),
    node_ids: Type.Array(Type.String(), { description: 'One entry per node, like all columns below.' }),
    names: Type.Array(Type.String()),
    status: indexColumn('Index into `statuses`.'),
    pool: indexColumn('Index into `pools`.'),
    zone: indexColumn('Index into `zones`.'),
    label: indexColumn('Index into `labels`.'),
    status_since_ms: Type.Array(Type.Integer(), { description: `Each in ${epoch}.` }),
    deadline_ms: Type.Array(nullable(Type.Integer()), { description: `Each in ${epoch}; null without a deadline.` }),
    held: indexColumn('The positions of the nodes with a held verdict.'),
    next_cursor: nullable(Type.String()),
  },
  { $id: 'FleetPage' },
);
export type FleetPage = Static<typeof FleetPage>;

/** Counts of live nodes by pool, zone and status. The cost does not grow with the fleet. */
export const FleetCounts = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        pool: Type.String(),
        zone: nullable(Type.String()),
        status: Type.Enum([...nodeStatusNames]),
        nodes: Type.Integer(),
        held: Type.Integer({ description: 'How many of these nodes have a held verdict.' }),
      }),
    ),
  },
  { $id: 'FleetCounts' },
);
export type FleetCounts = Static<typeof FleetCounts>;
