/**
 * The defences that separate posted facts from the server's own facts: kinds that are reserved for
 * the server, and checks of the origin wherever facts are read.
 */
import type { SourceEdit } from './attack.ts';

export const reservedKinds: SourceEdit[] = [
  {
    file: 'src/contract/evidence/evidence-kinds.ts',
    find: '(kind: string): boolean => reservedNounSet.has(nounOf(kind));',
    replace: '(_kind: string): boolean => false;',
  },
];

export const kindAndOriginChecks: SourceEdit[] = [
  ...reservedKinds,
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
