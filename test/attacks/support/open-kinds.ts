/**
 * Edits that remove the separation of posted facts from the server's own: the reserved kinds, and
 * the origin checks of the readers.
 */
import type { SourceEdit } from './attack.ts';

export const openKinds: SourceEdit[] = [
  {
    file: 'src/contract/evidence/evidence-kinds.ts',
    find: '(kind: string): boolean => reserved.has(nounOf(kind));',
    replace: '(_kind: string): boolean => false;',
  },
];

export const trustedByKind: SourceEdit[] = [
  ...openKinds,
  {
    file: 'src/contract/evidence/evidence-kinds.ts',
    find: "return origin === 'internal' || origin === 'report';",
    replace: 'return true;',
  },
  {
    file: 'src/store/evidence/own-facts.ts',
    find: "fact}.origin in ('internal', 'report')",
    replace: "fact}.origin <> 'x'",
  },
  { file: 'src/lifecycle/findings/refused-beats.ts', find: " || fact.origin !== 'internal'", replace: '' },
];
