/**
 * Finds things by id or name. Items that the caller may not see are left out, so that the reply
 * does not show whether they exist.
 */
import { type Static, Type } from 'typebox';
import { Id, nullable, strict, Timestamp } from '../primitives.ts';

/**
 * The id of a node, instance, allocation, operation, task, residue or finding, a correlation id, or
 * the name of a machine or an allocation.
 */
export const FindQuery = Type.Object({ id: Id }, strict);

export const foundKinds = ['allocation', 'operation', 'node', 'residue', 'finding'] as const;
export type FoundKind = (typeof foundKinds)[number];

/** An item with the id or name, or one that the request with the correlation id touched. */
export const FoundThing = Type.Object(
  {
    kind: Type.Enum([...foundKinds]),
    id: Type.String(),
    name: nullable(Type.String()),
    status: Type.String(),
    /** Whether the status is final: retired, released or ended. */
    over: Type.Boolean(),
    node_id: nullable(Type.String()),
    /** The requested instance, if any. */
    node_instance_id: nullable(Type.String()),
    allocation_id: nullable(Type.String()),
  },
  { $id: 'FoundThing' },
);
export type FoundThing = Static<typeof FoundThing>;

export const FoundRequest = Type.Object(
  {
    correlation_id: Type.String(),
    /** The time of the first fact about the request. */
    at: Timestamp,
    summary: Type.String(),
    actor: nullable(Type.String({ description: 'The person or program that made the request, if one did.' })),
  },
  { $id: 'FoundRequest' },
);
export type FoundRequest = Static<typeof FoundRequest>;

/** Kinds that have a timeline of their own. */
export const targetKinds = ['allocation', 'operation', 'node'] as const;
export type TargetKind = (typeof targetKinds)[number];

export const Found = Type.Object(
  {
    known: Type.Boolean({ description: 'False if nothing visible has this id or name.' }),
    as_request: Type.Boolean({
      description: 'The id is a correlation id, and the items are the results of its request.',
    }),
    items: Type.Array(FoundThing),
    meant: nullable(
      Type.Object(
        {
          kind: Type.Enum([...targetKinds]),
          id: Type.String(),
          node_instance_id: nullable(Type.String()),
        },
        { description: 'The item that the others belong to; null if there are several such items or none.' },
      ),
    ),
    requests: Type.Array(FoundRequest, {
      description: 'For one allocation: every request about it, oldest first.',
    }),
  },
  { $id: 'Found' },
);
export type Found = Static<typeof Found>;
