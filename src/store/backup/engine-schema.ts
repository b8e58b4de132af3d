import type pg from 'pg';

/** The engine's tables in the same database. The engine creates them; a backup has their rows. */
export interface EngineSchema {
  name: string;
  /** The table with the version of the schema. In a new database it already has a row. */
  version_table: string;
  /** The newest version that this Slipway knows. */
  newest: number;
  /** 0 for a database without the tables. */
  readVersion(client: pg.Client): Promise<number>;
  /** Creates the tables of this version, or brings older ones to it. */
  create(client: pg.Client, version: number): Promise<void>;
}
