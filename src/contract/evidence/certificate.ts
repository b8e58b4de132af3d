/** The release certificate on the wire. */
import { type Static, Type } from 'typebox';
import { nullable, strict, Timestamp } from '../primitives.ts';

export const releaseProofs = ['proven', 'unproven', 'no_machine'] as const;

export const Certificate = Type.Object(
  {
    type: Type.Literal('slipway.certificate.1'),
    installation: Type.String(),
    allocation_id: Type.String(),
    correlation_id: Type.String(),
    tenant: Type.String(),
    pool: Type.String(),
    node_id: nullable(Type.String()),
    requested_at: Timestamp,
    active_at: nullable(Timestamp),
    released_at: Timestamp,
    release: Type.Enum([...releaseProofs], {
      description:
        'proven: a proof exists; unproven: released by force without a proof, see `residue`; no_machine: no machine had to be torn down.',
    }),
    instances: Type.Array(
      Type.Object(
        {
          node_id: Type.String(),
          node_instance_id: Type.String(),
          driver: nullable(Type.String()),
          image: nullable(Type.String()),
          spec_sha256: nullable(
            Type.String({
              description:
                "The digest of the pool's spec as canonical JSON, with values of variables, scripts and commands masked.",
            }),
          ),
          from: Timestamp,
          until: nullable(Timestamp),
        },
        strict,
      ),
      { description: 'The instances that ran for the allocation, as far as evidence is kept; at most the newest 100.' },
    ),
    proofs: Type.Array(
      Type.Object(
        {
          kind: Type.String({ description: 'absent, clean or revoked' }),
          by: Type.String({ description: 'agent or driver' }),
          at: Timestamp,
          node_instance_id: nullable(Type.String()),
          workflow_id: nullable(Type.String()),
          partition: Type.String(),
          cursor: Type.String(),
        },
        strict,
      ),
      { description: 'The proofs recorded before the release, oldest first; at most the newest 100.' },
    ),
    residue: Type.Array(
      Type.Object(
        { residue_id: Type.String(), kind: Type.String(), resource: Type.String(), status: Type.String() },
        strict,
      ),
      {
        description:
          'What a forced release left behind, according to the database when the certificate was issued. Residue is not sealed.',
      },
    ),
    chain: Type.Object(
      {
        partition: Type.String(),
        cursor: Type.String({ description: 'The cursor of the row that records the release.' }),
        row: Type.Integer({ description: 'The number of that row in the chain of the partition.' }),
        row_hash: Type.String(),
        checkpoint: Type.Integer(),
        checkpoint_hash: Type.String(),
      },
      strict,
    ),
    issued_at: Timestamp,
    kid: Type.String(),
    signature: Type.String({ description: 'Ed25519, base64.' }),
  },
  { ...strict, $id: 'Certificate' },
);
export type Certificate = Static<typeof Certificate>;
