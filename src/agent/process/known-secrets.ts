/**
 * Strikes out of what a workload prints what it was given as secret, before it is written anywhere: values of stored secrets, and
 * whatever stands under a name that says it is one.
 */
import { isSecretName, redactionMark } from '../../base/redaction/redact.ts';

/** Shorter ones are words that mean something elsewhere as well. */
const leastLength = 8;

/** A value of several lines is printed line by line. */
const printedForms = (value: string): string[] => [value, ...value.split(/\r?\n/)].map((part) => part.trim());

/** `secret_env` are variables that are secret whatever their names. */
export function strikeKnown(env: NodeJS.ProcessEnv, secret_env: readonly string[] = []): (text: string) => string {
  const values = Object.entries(env)
    .filter(([name]) => isSecretName(name) || secret_env.includes(name))
    .flatMap(([, value = '']) => printedForms(value).filter((form) => form.length >= leastLength));
  const forms = values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
  // The longest first: one may be a part of another.
  const known = [...new Set(forms)].sort((a, b) => b.length - a.length);
  if (known.length === 0) return (text) => text;
  return (text) =>
    known.reduce((left, value) => (left.includes(value) ? left.replaceAll(value, redactionMark) : left), text);
}
