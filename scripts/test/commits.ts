/** How many commits there are up to this one; a tree without its history counts as none. */
import { execFileSync } from 'node:child_process';

export function commits(directory: string): number {
  try {
    const said = execFileSync('git', ['rev-list', '--count', 'HEAD'], {
      cwd: directory,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return Number(said.toString()) || 0;
  } catch {
    return 0;
  }
}
