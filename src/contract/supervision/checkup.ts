/** The server's view of a machine's connection, layer by layer; read by `doctor`. */
import { type Static, Type } from 'typebox';
import { OwnerLayer } from '../errors/problem.ts';
import { NodeStatusName } from '../node.ts';
import { Id, nullable, strict, Timestamp } from '../primitives.ts';

export const LayerCheck = Type.Object(
  {
    layer: Type.Enum(['credential', 'fence', 'heartbeat', 'claim', 'result']),
    ok: nullable(Type.Boolean({ description: 'Null while the result is not known yet.' })),
    code: nullable(Type.String({ description: 'A code from docs/reference/errors.md; null if nothing is wrong.' })),
    owner_layer: nullable(OwnerLayer),
    detail_layer: nullable(Type.String()),
    detail: Type.String(),
  },
  { $id: 'LayerCheck' },
);
export type LayerCheck = Static<typeof LayerCheck>;

export const Checkup = Type.Object(
  {
    node_id: Type.String(),
    node_instance_id: nullable(Type.String()),
    node_status: NodeStatusName,
    at: Timestamp,
    checks: Type.Array(LayerCheck),
  },
  { $id: 'Checkup' },
);
export type Checkup = Static<typeof Checkup>;

export const PingRequest = Type.Object(
  {
    within_seconds: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 60,
        description: 'How many seconds the agent has to answer; 10 by default.',
      }),
    ),
  },
  { ...strict, $id: 'PingRequest' },
);
export type PingRequest = Static<typeof PingRequest>;

export const Ping = Type.Object(
  {
    task_id: Type.String(),
    node_id: Type.String(),
    node_instance_id: Type.String(),
    expires_at: Timestamp,
    over: Type.Boolean({ description: 'The ping has ended.' }),
    checks: Type.Array(LayerCheck),
  },
  { $id: 'Ping' },
);
export type Ping = Static<typeof Ping>;

export const PingParams = Type.Object({ id: Id, task_id: Id }, strict);
export const OwnPingParams = Type.Object({ task_id: Id }, strict);
export const PingQuery = Type.Object(
  {
    wait: Type.Optional(
      Type.Number({ minimum: 0, maximum: 30, description: 'Seconds to wait for the end of the ping.' }),
    ),
  },
  strict,
);
