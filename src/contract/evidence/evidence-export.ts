/** Exported evidence on the wire. */
import { type Static, Type } from 'typebox';
import { Moment, nullable, strict } from '../primitives.ts';

const RowTextSchema = Type.Object({
  xid: Type.String(),
  seq: Type.String(),
  at: Type.String({ description: 'Seconds since 1970, with microseconds.' }),
  layer: Type.String(),
  kind: Type.String(),
  summary: Type.String(),
  data: Type.String({ description: 'The exact JSON text that was hashed.' }),
  actor: nullable(Type.String({ description: 'The exact JSON text that was hashed.' })),
  node_id: nullable(Type.String()),
  node_instance_id: nullable(Type.String()),
  correlation_id: nullable(Type.String()),
  allocation_id: nullable(Type.String()),
  workflow_id: nullable(Type.String()),
  origin: Type.String(),
});

export const ExportedRow = Type.Object(
  {
    type: Type.Literal('row'),
    checkpoint: Type.Integer({ description: 'The checkpoint that seals the row.' }),
    number: Type.Integer({ description: 'The number of the row in the chain of its layer.' }),
    hash: Type.String(),
    row: RowTextSchema,
  },
  { $id: 'ExportedRow' },
);
export const ExportedCheckpoint = Type.Object(
  {
    type: Type.Literal('checkpoint'),
    position: Type.Integer(),
    body: Type.String(),
    signature: Type.String(),
    hash: Type.String(),
    entries: Type.Record(Type.String(), Type.String()),
  },
  { $id: 'ExportedCheckpoint' },
);

export const EvidenceExport = Type.Object(
  {
    items: Type.Array(Type.Union([ExportedRow, ExportedCheckpoint])),
    next_cursor: nullable(Type.String({ description: 'Null if no more evidence is sealed yet.' })),
    resume_cursor: Type.String({ description: 'Where to continue later. Also set on the last page.' }),
  },
  { $id: 'EvidenceExport' },
);
export type EvidenceExport = Static<typeof EvidenceExport>;

export const EvidenceExportQuery = Type.Object(
  {
    cursor: Type.Optional(Type.String({ maxLength: 64, description: 'The resume_cursor of the previous page.' })),
    since_cursor: Type.Optional(
      Type.String({ maxLength: 64, description: 'Start with the first checkpoint that seals rows after this cursor.' }),
    ),
    since: Type.Optional(Moment),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500 })),
  },
  strict,
);
export type EvidenceExportQuery = Static<typeof EvidenceExportQuery>;
