/**
 * The SQL form of `isOwnFact`: the server recorded the fact itself. Every query that decides or
 * explains something by the kind of a fact must use it.
 */
import { lateReservedNouns } from '../../contract/evidence/evidence-kinds.ts';

const lately = lateReservedNouns.map((noun) => `'${noun}'`).join(', ');

/** `fact` is the name that the query gives the evidence table. */
export const isOwn = (fact: string): string =>
  `(${fact}.origin in ('internal', 'report') or (${fact}.origin = 'unknown' and split_part(${fact}.kind, '.', 1) not in (${lately})))`;
