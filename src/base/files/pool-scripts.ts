/**
 * Keeps the text of a pool's scripts out of what people see, because only admins may see scripts.
 */
export const hiddenScript = '[script of the pool]';

/** A shorter script reveals nothing, and hiding it would also hide unrelated text. */
const minLength = 4;

/** Hides a pool's scripts and commands in a process list. */
export function createScriptHider(scripts: readonly (string | null | undefined)[]): (commandLine: string) => string {
  const hiddenTexts = scripts
    .map((script) => script?.trim() ?? '')
    .filter((script) => script.length >= minLength)
    .sort((a, b) => b.length - a.length);
  return (commandLine) =>
    hiddenTexts.reduce((text, script) => text.replaceAll(script, () => hiddenScript), commandLine);
}

/** Describes in one line how a pool's script ended, with its last output and without its text. */
export function describeScriptEnd(name: string, ending: string, last_lines: readonly string[]): string {
  const outputLines = last_lines.map((line) => line.trim()).filter((line) => line !== '');
  return `${name} ${ending}${outputLines.length > 0 ? `: ${outputLines.join(' · ')}` : ''}`;
}
