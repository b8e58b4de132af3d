/** Basic types of all wire schemas. */
import { type Static, type TSchema, Type } from 'typebox';

/** Ids are opaque but restricted, so that nothing unexpected reaches a query or a path. */
export const Id = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]*(_[A-Za-z0-9._:-]+)*$',
});
/** Names of pools, nodes and tenants: valid in a label and in a URL without quoting. */
export const Name = Type.String({ minLength: 1, maxLength: 63, pattern: '^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$' });
/** Text that PostgreSQL can store. */
export const withoutNul = '^[^\\u0000]*$';
/** Text that PostgreSQL can store and that is not blank. */
export const notBlank = '^\\s*[^\\s\\u0000][^\\u0000]*$';
/** The reason for an action. A blank one is refused like a missing one. */
export const Reason = Type.String({
  minLength: 1,
  maxLength: 1024,
  pattern: notBlank,
  description: 'The reason; it is stored as evidence.',
});
export const Timestamp = Type.String({ description: 'UTC, RFC 3339' });
/**
 * A time given by a caller. Narrower than RFC 3339: a plausible year and an existing offset, as the
 * database requires.
 */
export const Moment = Type.String({
  format: 'date-time',
  pattern:
    '^(19[7-9]|2[0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}([.][0-9]{1,9})?([Zz]|[+-](0[0-9]|1[0-4]):[0-9]{2})$',
});
export const Seconds = Type.Number({ minimum: 0, maximum: 31_536_000 });
export const PositiveSeconds = Type.Number({ exclusiveMinimum: 0, maximum: 31_536_000 });
export const Labels = Type.Record(
  Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$' }),
  Type.String({ maxLength: 256 }),
  { maxProperties: 64, additionalProperties: false },
);
export type Labels = Record<string, string>;

/** An object with any fields. The code that reads one has to check them. */
export const OpenObject = Type.Record(Type.String(), Type.Unknown());

export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
export const strict = { additionalProperties: false } as const;

export const maxPageItems = 500;
/** Query fields of every list. */
export const paging = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxPageItems })),
  cursor: Type.Optional(Type.String({ maxLength: 512 })),
};

const nextCursor = nullable(
  Type.String({
    description:
      'Where the next page starts; null on the last page. An earlier page may be short or even empty if the server had to skip many rows.',
  }),
);

export const pageOf = <T extends TSchema>(item: T, $id: string) =>
  Type.Object({ items: Type.Array(item), next_cursor: nextCursor }, { $id });

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export const IdParams = Type.Object({ id: Id }, strict);
export type IdParams = Static<typeof IdParams>;
