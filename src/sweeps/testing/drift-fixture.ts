/** A fleet in a test database with the services of a drift pass, but without any driver. */
import { type Database, openDatabase } from '../../store/pg/database.ts';
import { type Fleet, testFleet } from '../../store/testing/fleet.ts';
import { defaultEnvironment } from '../../store/transitions/transition-rules.ts';
import type { SweepServices } from '../runner/services.ts';

export interface DriftFixture {
  db: Database;
  fleet: Fleet;
  services: SweepServices;
  close(): Promise<void>;
}

export async function driftFixture(database: { url: string; drop(): Promise<void> }): Promise<DriftFixture> {
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
