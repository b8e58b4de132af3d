/**
 * Redacts the secrets in a workload's environment from its output, before the output is written
 * anywhere. Secrets are the values of stored secrets and of variables with a secret name.
 */
import { isSecretName, redactionMark } from '../../base/redaction/redact.ts';

/** Shorter values are often ordinary words, so they are not redacted. */
const minLength = 8;

/** Includes each line of a multi-line value, because output is redacted line by line. */
const printedForms = (value: string): string[] => [value, ...value.split(/\r?\n/)].map((part) => part.trim());

/** `secret_env` lists variables that are secret although their names do not show it. */
export function createSecretRedactor(
  env: NodeJS.ProcessEnv,
  secret_env: readonly string[] = [],
): (text: string) => string {
  const values = Object.entries(env)
    .filter(([name]) => isSecretName(name) || secret_env.includes(name))
    .flatMap(([, value = '']) => printedForms(value).filter((form) => form.length >= minLength));
  const forms = values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
  // Longest first, because one secret may be part of another.
  const knownSecrets = [...new Set(forms)].sort((a, b) => b.length - a.length);
  if (knownSecrets.length === 0) return (text) => text;
  return (text) =>
    knownSecrets.reduce(
      (redacted, value) => (redacted.includes(value) ? redacted.replaceAll(value, redactionMark) : redacted),
      text,
    );
}
