/** How a shell text that a pool gave ended, in one line: which it was, how it ended, and its last words. */

const longestScript = 60;

/** As it was written: variables stand by their names, so that no value of the environment is ever told. */
function shortened(script: string): string {
  const line = script.trim().replaceAll(/\s+/g, ' ');
  return line.length <= longestScript ? line : `${line.slice(0, longestScript - 1).trimEnd()}…`;
}

export function scriptEnd(name: string, script: string, how: string, last_lines: readonly string[]): string {
  const said = last_lines.map((line) => line.trim()).filter((line) => line !== '');
  return `${name} (\`${shortened(script)}\`) ${how}${said.length > 0 ? `: ${said.join(' · ')}` : ''}`;
}
