/**
 * Divides the database connections of a replica among its pools. The probes of the store watch and
 * the evidence tail need connections of their own, because they must work while the pools are
 * exhausted.
 */
import { maxProbes } from '../store/pg/connections/lost-answers.ts';

const tailConnections = 1;
/** The engine's share. The engine listens on one connection, and holds few others for long. */
const engineShare = 10 / 26;

export function splitConnections(total: number): { statements: number; engine: number } {
  const pooled = total - tailConnections - maxProbes;
  const engine = Math.round(pooled * engineShare);
  return { statements: pooled - engine, engine };
}
