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
  data: Type.String({ description: 'JSON, as the text that was hashed.' }),
  actor: nullable(Type.String({ description: 'JSON, as the text that was hashed.' })),
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
    checkpoint: Type.Integer({ description: 'The checkpoint that seals it.' }),
    number: Type.Integer({ description: 'Its number in the chain of its layer.' }),
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
    next_cursor: nullable(Type.String({ description: 'Null where nothing more is sealed for now.' })),
    resume_cursor: Type.String({ description: 'Where to go on, also at the end.' }),
  },
  { $id: 'EvidenceExport' },
);
export type EvidenceExport = Static<typeof EvidenceExport>;

export const EvidenceExportQuery = Type.Object(
  {
    cursor: Type.Optional(Type.String({ maxLength: 64, description: 'The resume_cursor of the page before.' })),
    since_cursor: Type.Optional(
      Type.String({ maxLength: 64, description: 'Begin with the first checkpoint that seals rows after this one.' }),
    ),
    since: Type.Optional(Moment),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500 })),
  },
  strict,
);
export type EvidenceExportQuery = Static<typeof EvidenceExportQuery>;
