/**
 * Masks pool fields that often hold secrets: environment, scripts and commands. Callers below admin
 * see a marker instead of literal values. A marker in a submitted document, from any caller, keeps
 * the stored value.
 */
import type { Pool, PoolDocument } from '../pool.ts';

export const maskedValue = '[masked: admins only]';

/** Field names in `spec` of any driver. */
const scriptFields = ['setup', 'prepare', 'clean'] as const;

type Spec = Record<string, unknown>;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A variable that refers to a stored secret keeps the reference, which holds only a name. */
const maskEnv = (env: unknown): unknown =>
  isRecord(env)
    ? Object.fromEntries(Object.entries(env).map(([name, value]) => [name, isRecord(value) ? value : maskedValue]))
    : maskedValue;

function maskSpec(spec: Spec): Spec {
  const masked: Spec = { ...spec };
  if (masked.env !== undefined) masked.env = maskEnv(masked.env);
  if (masked.command !== undefined) masked.command = [maskedValue];
  for (const name of scriptFields) if (masked[name] !== undefined) masked[name] = maskedValue;
  return masked;
}

type Maskable = Pick<PoolDocument, 'spec' | 'requires'>;

/** The pool as callers below admin see it. */
export function maskPool<T extends Maskable>(pool: T): T {
  return {
    ...pool,
    ...(pool.spec && { spec: maskSpec(pool.spec) }),
    ...(pool.requires && { requires: pool.requires.map((each) => ({ ...each, check: maskedValue })) }),
  };
}

export const poolFor = (role: string, pool: Pool): Pool => (role === 'admin' ? pool : maskPool(pool));

const isMasked = (value: unknown): boolean =>
  value === maskedValue || (Array.isArray(value) && value.length === 1 && value[0] === maskedValue);

export interface Unmasked<T> {
  document: T;
  /** Paths with a marker but no stored value. */
  unknown: string[];
}

/** Replaces every marker with the stored value. */
export function unmaskPool<T extends Maskable>(sent: T, stored: Maskable | undefined): Unmasked<T> {
  const unknown: string[] = [];
  const restore = (path: string, value: unknown, kept: unknown): unknown => {
    if (!isMasked(value)) return value;
    if (kept === undefined) unknown.push(path);
    return kept;
  };
  const unmaskSpec = (spec: Spec): Spec => {
    const before = (stored?.spec ?? {}) as Spec;
    const env = isRecord(before.env) ? before.env : {};
    return Object.fromEntries(
      Object.entries(spec).map(([name, value]) => {
        if (name !== 'env' || !isRecord(value)) return [name, restore(`/body/spec/${name}`, value, before[name])];
        const variables = Object.entries(value).map(([variable, inner]) => [
          variable,
          restore(`/body/spec/env/${variable}`, inner, Object.hasOwn(env, variable) ? env[variable] : undefined),
        ]);
        return [name, Object.fromEntries(variables)];
      }),
    );
  };
  const checks = new Map((stored?.requires ?? []).map(({ name, check }) => [name, check]));
  const document = {
    ...sent,
    ...(sent.spec && { spec: unmaskSpec(sent.spec) }),
    ...(sent.requires && {
      requires: sent.requires.map((each, index) => ({
        ...each,
        check: restore(`/body/requires/${index}/check`, each.check, checks.get(each.name)) as string,
      })),
    }),
  };
  return { document, unknown };
}
