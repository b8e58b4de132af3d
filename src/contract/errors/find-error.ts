/**
 * Finds the entry of a code in both catalogues: errors that the server sends, and faults found on
 * the network path.
 */
import { type ErrorEntry, errorCatalogue } from './errors.ts';
import { type PathFault, pathFaults } from './path-faults.ts';

export type FaultEntry = Omit<ErrorEntry, 'status'>;

const all: Record<string, FaultEntry> = { ...errorCatalogue, ...(pathFaults satisfies Record<string, PathFault>) };

/** The entry of the code; null if it is unknown. */
export const findError = (code: string): FaultEntry | null => (Object.hasOwn(all, code) ? (all[code] ?? null) : null);
