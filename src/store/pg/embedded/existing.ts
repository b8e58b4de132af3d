/** Connects to the embedded database of a data directory, for programs beside the server. */
import type { Clock } from '../../../base/clock.ts';
import { findRunningDatabase, hasCluster, startEmbeddedPostgres } from './embedded.ts';
import { EmbeddedPostgresError } from './embedded-error.ts';
import { choosePlacement } from './placement.ts';

export interface ExistingPostgres {
  url: string;
  clusterDir: string;
  /** Stops the database if `openExistingPostgres` started it. */
  close(): Promise<void>;
}

/** Uses the running database of a server, or starts it until `close`. */
export async function openExistingPostgres(dataDir: string, clock: Clock): Promise<ExistingPostgres> {
  if (!hasCluster(dataDir))
    throw new EmbeddedPostgresError(
      'data_directory_unusable',
      `${dataDir} holds no database.`,
      'Name the data directory of the server, or its database with --database-url.',
    );
  const url = await findRunningDatabase(dataDir);
  if (url) return { url, clusterDir: choosePlacement(dataDir, () => {}).clusterDir, close: async () => {} };
  const started = await startEmbeddedPostgres({ dataDir, clock });
  return { url: started.url, clusterDir: started.clusterDir, close: started.stop };
}
