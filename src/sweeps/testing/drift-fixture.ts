/** A fleet in a test database with the services of a drift pass; no driver sees any machine. */
import { type Database, openDatabase } from '../../store/pg/database.ts';
import { type Fleet, testFleet } from '../../store/testing/fleet.ts';
import { defaultEnvironment } from '../../store/transitions/transition-rules.ts';
import type { SweepServices } from '../runner/services.ts';

export interface DriftWorld {
  db: Database;
  fleet: Fleet;
  services: SweepServices;
  close(): Promise<void>;
}

export async function driftWorld(database: { url: string; drop(): Promise<void> }): Promise<DriftWorld> {
  const db = openDatabase({ url: database.url });
  const fleet = await testFleet(db);
  const services = {
    db,
    clock: fleet.clock,
    environment: defaultEnvironment,
    drivers: new Map(),
    ingest: { isSteady: () => true },
  } as unknown as SweepServices;
  return {
    ...{ db, fleet, services },
    async close() {
      await db.close();
      await database.drop();
    },
  };
}
