/** Hides the text of a pool's scripts and commands in lists of processes: those are read by people who may not see scripts. */
export const hiddenScript = '[script of the pool]';

/** `sleep 10`: a shorter text says nothing, and would be hidden wherever else it stands. */
const shortest = 4;

export function withoutScripts(scripts: readonly (string | null | undefined)[]): (commandLine: string) => string {
  const known = scripts
    .map((script) => script?.trim() ?? '')
    .filter((script) => script.length >= shortest)
    .sort((a, b) => b.length - a.length);
  return (commandLine) => known.reduce((left, script) => left.replaceAll(script, () => hiddenScript), commandLine);
}
