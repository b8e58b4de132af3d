/** Sealed evidence on the wire: checkpoints, verification results and signing keys. */
import { type Static, Type } from 'typebox';
import { nullable, strict, Timestamp } from '../primitives.ts';

export const faultCodes = [
  'row_deleted',
  'row_changed',
  'row_moved',
  'row_inserted',
  'segment_changed',
  'segment_list_changed',
  'checkpoint_unreadable',
  'checkpoint_missing',
  'checkpoint_unsigned',
  'checkpoint_unlinked',
  'checkpoint_lost',
  'segment_unlinked',
  'cut_incomplete',
  'head_missing',
] as const;

export const EvidenceFault = Type.Object(
  {
    code: Type.Enum([...faultCodes]),
    partition: nullable(Type.String({ description: 'The layer of the evidence.' })),
    cursor: nullable(
      Type.String({ description: 'The cursor of the row, or of the first row if the fault is about several.' }),
    ),
    until: nullable(Type.String({ description: 'The cursor of the last row, if the fault is about several.' })),
    moved_to: nullable(Type.String({ description: 'The present cursor of a row that was moved.' })),
    hash: nullable(Type.String({ description: 'The content hash of the sealed row, or of the inserted row.' })),
    checkpoint: nullable(Type.Integer()),
  },
  { $id: 'EvidenceFault' },
);
export type EvidenceFault = Static<typeof EvidenceFault>;

export const UnsealedTail = Type.Object(
  { rows: Type.Integer(), oldest_at: nullable(Timestamp) },
  { $id: 'UnsealedTail' },
);
export type UnsealedTail = Static<typeof UnsealedTail>;

export const EvidenceCheckpoint = Type.Object(
  {
    body: Type.String({ description: 'The exact text that was signed: canonical JSON.' }),
    signature: Type.String({ description: 'Ed25519, base64.' }),
  },
  { $id: 'EvidenceCheckpoint' },
);

export const EvidenceVerified = Type.Object(
  {
    checkpoints: Type.Array(EvidenceCheckpoint),
    rows: Type.Integer({ description: 'The number of rows on this page that match what was sealed.' }),
    items: Type.Array(EvidenceFault),
    more_faults: Type.Integer({ description: 'The number of faults on this page that are not listed.' }),
    cuts: Type.Array(Type.Object({ checkpoint: Type.Integer(), rows: Type.Integer() }), {
      description: 'Sealed rows that retention dropped with a signed cut.',
    }),
    unsealed: nullable(UnsealedTail),
    next_cursor: nullable(Type.String()),
  },
  { $id: 'EvidenceVerified' },
);
export const EvidenceVerifyQuery = Type.Object({ cursor: Type.Optional(Type.String({ maxLength: 20 })) }, strict);

export const EvidenceKeys = Type.Object(
  {
    installation: Type.String(),
    keys: Type.Array(
      Type.Object({
        kid: Type.String(),
        public_key: Type.String({ description: 'Ed25519, SubjectPublicKeyInfo (DER), base64.' }),
        held: Type.Boolean({ description: 'Whether the answering server holds the private key.' }),
        introduced_at: nullable(Timestamp),
      }),
    ),
  },
  { $id: 'EvidenceKeys' },
);
export type EvidenceKeys = Static<typeof EvidenceKeys>;
