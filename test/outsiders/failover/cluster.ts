/** A primary database with a synchronous standby. */
import { existsSync, readdirSync } from 'node:fs';
import { replicatedPostgres } from '../../support/replicated-postgres.ts';

export interface FailoverCluster {
  /** Describes the programs, for the printed figures. */
  name: string;
  /** The URL for the server; it leads to the primary after a failover too. */
  url: string;
  /** Connects to the primary directly. */
  primaryUrl(): string;
  /** Starts a standby in place of the former primary. Resolves when commits wait for it. */
  addStandby(): Promise<void>;
  /** Kills every process of the primary. */
  killPrimary(): Promise<void>;
  /** Resolves when the standby accepts writes. */
  promote(): Promise<void>;
  stop(): Promise<void>;
}

const debianRoot = '/usr/lib/postgresql';

/** The newest of Debian's versions that is installed here; its programs are under `bin`. */
function findDebianPostgres(): { programs: string; version: string } | undefined {
  const versions = existsSync(debianRoot) ? readdirSync(debianRoot).sort((a, b) => Number(b) - Number(a)) : [];
  const version = versions.find((each) => existsSync(`${debianRoot}/${each}/bin/pg_basebackup`));
  return version ? { programs: `${debianRoot}/${version}`, version } : undefined;
}

/** Uses Debian's PostgreSQL if the machine has it, otherwise the embedded one. */
export async function plainCluster(): Promise<FailoverCluster> {
  const debian = findDebianPostgres();
  const postgres = await replicatedPostgres({ isSynchronous: true, ...(debian && { programs: debian.programs }) });
  return {
    ...postgres,
    name: debian ? `Debian's PostgreSQL ${debian.version}` : 'the embedded PostgreSQL',
    url: postgres.urlOfBoth,
  };
}
