/**
 * The SQL form of `isOwnFact`: whether the server itself recorded a fact. Every query that decides
 * or explains something by the kind of a fact must use this condition: callers can post facts, and
 * only the server's own count.
 */
import { lateReservedNouns } from '../../contract/evidence/evidence-kinds.ts';

const lateNouns = lateReservedNouns.map((noun) => `'${noun}'`).join(', ');

/** `fact` is the alias of the evidence table in the query. */
export const recordedByServerSql = (fact: string): string =>
  `(${fact}.origin in ('internal', 'report') or (${fact}.origin = 'unknown' and split_part(${fact}.kind, '.', 1) not in (${lateNouns})))`;
