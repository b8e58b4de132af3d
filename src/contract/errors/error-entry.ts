/** One look-up over both halves of the catalogue: what is sent, and what is found on the way. */
import { type ErrorEntry, errorCatalogue } from './errors.ts';
import { type PathFault, pathFaults } from './path-faults.ts';

export type FaultEntry = Omit<ErrorEntry, 'status'>;

const all: Record<string, FaultEntry> = { ...errorCatalogue, ...(pathFaults satisfies Record<string, PathFault>) };

/** Null for a code that is not ours. */
export const faultEntry = (code: string): FaultEntry | null => (Object.hasOwn(all, code) ? (all[code] ?? null) : null);
