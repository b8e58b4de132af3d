/**
 * Secrets can be set and replaced, but never read back. Pools reference them in their environment.
 */
import { type Static, Type } from 'typebox';
import { Name, nullable, pageOf, strict, Timestamp, withoutNul } from '../primitives.ts';

export const SecretParams = Type.Object({ name: Name }, strict);

export const SecretRequest = Type.Object(
  {
    value: Type.String({
      minLength: 1,
      maxLength: 32_768,
      pattern: withoutNul,
      description:
        'Stored encrypted and never shown. Values under 16 characters, which could be guessed, and values that cannot be redacted safely are refused with `secret_value_unsuitable`.',
    }),
  },
  { ...strict, $id: 'SecretRequest' },
);

export const Secret = Type.Object(
  {
    name: Name,
    version: Type.Integer({ description: 'Increases with every new value.' }),
    kid: Type.String({ description: 'The id of the key that encrypts the secret; the keys are in the key file.' }),
    readable: Type.Boolean({ description: 'Whether the key file of this server holds that key.' }),
    created_at: Timestamp,
    updated_at: Timestamp,
    last_used_at: nullable(Timestamp),
    used_by: Type.Array(Name, {
      description:
        'Pools that reference the secret now, or have a machine that was launched with it and is not retired.',
    }),
  },
  { $id: 'Secret' },
);
export type Secret = Static<typeof Secret>;
export const SecretPage = pageOf(Secret, 'SecretPage');

export const SecretDeletion = Type.Object(
  {
    force: Type.Optional(
      Type.Boolean({ description: 'Delete the secret even if pools reference it; their launches then fail.' }),
    ),
  },
  strict,
);

export const SecretRotation = Type.Object(
  {
    kid: Type.String({ description: 'The current key.' }),
    rotated: Type.Integer({ description: 'How many secrets were re-encrypted with the current key.' }),
    unreadable: Type.Array(Name, { description: 'Secrets whose key this server does not have; left as they are.' }),
  },
  { $id: 'SecretRotation' },
);
