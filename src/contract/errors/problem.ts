/**
 * The shape of every error of our own API (RFC 9457), and the layers that can own one. Foreign
 * protocols have shapes of their own.
 */
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
    type: Type.String({ description: 'The URL of the page that documents this code.' }),
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
        description:
          'For log lines of an instance that no longer counts: the lines up to this number were stored anyway.',
      }),
    ),
    heartbeat_interval_seconds: Type.Optional(
      Type.Number({
        description:
          'For a heartbeat that counted but was answered with a longer interval: when the next one is expected.',
      }),
    ),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'Problem' },
);
export type Problem = Static<typeof Problem>;
