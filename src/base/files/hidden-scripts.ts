/**
 * Hides a pool's scripts and commands in process lists, which are visible to people who may not see
 * scripts.
 */
export const hiddenScript = '[script of the pool]';

/** A shorter script reveals nothing, and hiding it would also hide unrelated text. */
const shortest = 4;

export function withoutScripts(scripts: readonly (string | null | undefined)[]): (commandLine: string) => string {
  const known = scripts
    .map((script) => script?.trim() ?? '')
    .filter((script) => script.length >= shortest)
    .sort((a, b) => b.length - a.length);
  return (commandLine) => known.reduce((left, script) => left.replaceAll(script, () => hiddenScript), commandLine);
}
