/** The shape of every error on the wire (RFC 9457), and the layers that can own one. */
import { type Static, Type } from 'typebox';

export const ownerLayers = [
  'request',
  'auth',
  'workflow',
  'provider',
  'node',
  'transport',
  'store',
  'control_plane',
  'operator',
] as const;
export const OwnerLayer = Type.Enum([...ownerLayers]);
export type OwnerLayer = (typeof ownerLayers)[number];

export const Problem = Type.Object(
  {
    type: Type.String({ description: 'Address of the page that documents this code.' }),
    title: Type.String(),
    status: Type.Integer(),
    code: Type.String(),
    owner_layer: OwnerLayer,
    detail_layer: Type.Optional(Type.String()),
    detail: Type.String(),
    correlation_id: Type.String(),
    retry_after_seconds: Type.Optional(Type.Number()),
    deadline_at: Type.Optional(Type.String()),
    acknowledged_seq: Type.Optional(
      Type.Integer({
        description: 'Lines of an instance that counts no more: up to this one they were kept all the same.',
      }),
    ),
    heartbeat_interval_seconds: Type.Optional(
      Type.Number({ description: 'Of a beat that was heard and put off: after this the next one is expected.' }),
    ),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'Problem' },
);
export type Problem = Static<typeof Problem>;
