/** What the machine's work is given under a name that says it is secret is struck out of what is printed, before it is written anywhere. */
import { isSecretName, struckOut } from '../base/redact.ts';

/** Shorter ones are words that mean something elsewhere as well. */
const leastLength = 8;

export function strikeKnown(env: NodeJS.ProcessEnv): (text: string) => string {
  const values = Object.entries(env).flatMap(([name, value = '']) =>
    isSecretName(name) && value.trim().length >= leastLength ? [value.trim()] : [],
  );
  const forms = values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
  // The longest first: one may be a part of another.
  const known = [...new Set(forms)].sort((a, b) => b.length - a.length);
  if (known.length === 0) return (text) => text;
  return (text) =>
    known.reduce((left, value) => (left.includes(value) ? left.replaceAll(value, struckOut) : left), text);
}
