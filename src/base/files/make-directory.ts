/** Creates directories with exact modes, whatever the umask of the process. */
import { chmodSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Creates a directory and its missing parents. Leaves the mode of existing directories alone. */
export function makeDirectory(path: string, mode: number): void {
  const first = mkdirSync(path, { recursive: true, mode });
  if (first === undefined) return;
  for (let created = resolve(path); ; created = dirname(created)) {
    chmodSync(created, mode);
    if (created === resolve(first)) return;
  }
}
