/**
 * Describes in one line how a pool's script ended, with its last output. Leaves out the script's
 * text: everyone who may see the failure reads this, and only admins may see scripts.
 */
export function scriptEnd(name: string, how: string, last_lines: readonly string[]): string {
  const said = last_lines.map((line) => line.trim()).filter((line) => line !== '');
  return `${name} ${how}${said.length > 0 ? `: ${said.join(' · ')}` : ''}`;
}
