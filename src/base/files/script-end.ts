/**
 * How a shell text that a pool gave ended, in one line: which it was, how it ended, and its last words. Its own text is left out:
 * everybody who may see the failure reads this, and scripts are shown to admins only.
 */
export function scriptEnd(name: string, how: string, last_lines: readonly string[]): string {
  const said = last_lines.map((line) => line.trim()).filter((line) => line !== '');
  return `${name} ${how}${said.length > 0 ? `: ${said.join(' · ')}` : ''}`;
}
