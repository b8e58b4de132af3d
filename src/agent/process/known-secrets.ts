/**
 * Redacts known secrets from a workload's output before it is written anywhere: values of stored
 * secrets, and values of variables with a secret name.
 */
import { isSecretName, redactionMark } from '../../base/redaction/redact.ts';

/** Shorter values are often ordinary words. */
const minLength = 8;

/** A multi-line value is printed line by line. */
const printedForms = (value: string): string[] => [value, ...value.split(/\r?\n/)].map((part) => part.trim());

/** `secret_env` lists variables that are secret whatever their names. */
export function redactKnown(env: NodeJS.ProcessEnv, secret_env: readonly string[] = []): (text: string) => string {
  const values = Object.entries(env)
    .filter(([name]) => isSecretName(name) || secret_env.includes(name))
    .flatMap(([, value = '']) => printedForms(value).filter((form) => form.length >= minLength));
  const forms = values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
  // Longest first: one may be part of another.
  const known = [...new Set(forms)].sort((a, b) => b.length - a.length);
  if (known.length === 0) return (text) => text;
  return (text) =>
    known.reduce((left, value) => (left.includes(value) ? left.replaceAll(value, redactionMark) : left), text);
}
