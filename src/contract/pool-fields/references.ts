/**
 * References to stored secrets in a pool's environment: `env: { API_KEY: { secret: api-key } }`.
 */
import { type Static, Type } from 'typebox';
import { Name, strict } from '../primitives.ts';

export const SecretReference = Type.Object(
  { secret: Name },
  { ...strict, description: 'The name of a stored secret; its value is read when a machine is launched.' },
);
export type SecretReference = Static<typeof SecretReference>;

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

export const isSecretReference = (value: unknown): value is SecretReference =>
  isRecord(value) && typeof value.secret === 'string';

/** The secrets referenced by a pool's spec, by variable. */
export function referencesIn(spec: unknown): { variable: string; secret: string }[] {
  const env = isRecord(spec) && isRecord(spec.env) ? spec.env : {};
  return Object.entries(env).flatMap(([variable, value]) =>
    isSecretReference(value) ? [{ variable, secret: value.secret }] : [],
  );
}

export const secretsIn = (spec: unknown): string[] => [...new Set(referencesIn(spec).map(({ secret }) => secret))];
