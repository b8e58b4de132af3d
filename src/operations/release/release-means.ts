/** What a release makes of the machine, in words for whoever is about to ask for it. Pure. */
import type { ActionSubject } from '../../lifecycle/actions/actions.ts';

export function releaseMeans(machine: Pick<ActionSubject, 'status' | 'reuse'> | null): string {
  if (!machine) return 'it has no machine, so nothing is taken down; it is given back';
  const aside = machine.status === 'quarantined';
  if (machine.reuse)
    return `its machine is cleaned, proven clean by its agent, and ${aside ? 'stays aside' : 'free for the next'}; if its agent is gone, it is taken down instead`;
  return aside
    ? 'its machine is taken down, with proof, and retired: it is set aside now, and after this nothing is left of it to look at'
    : 'its machine is taken down, with proof, and retired';
}
