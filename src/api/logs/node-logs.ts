/**
 * Wires up the logs of nodes: the intake limit, the writer, the wake-up of followers and the
 * forwarding of stored lines.
 */
import type { Clock } from '../../base/clock.ts';
import type { ServerSettings } from '../../base/settings/settings.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { openLogForwarders } from '../../base/telemetry/log-forwarder.ts';
import type { LogSettings } from '../../lifecycle/limits/retention.ts';
import type { RestorationWatch } from '../../store/backup/restoration-watch.ts';
import { createLogWriter, type StoredLines, toForwardedLines } from '../../store/logs/log-writer.ts';
import type { Database } from '../../store/pg/database.ts';
import type { PoolRedactors } from '../../store/rows/secrets/pool-redactors.ts';
import type { ReplicaFigures } from '../metrics.ts';
import type { ApiServices } from '../services.ts';
import { createLogArrivals } from './log-arrivals.ts';
import { createLogIntake } from './log-intake.ts';

export interface NodeLogs {
  services: Pick<ApiServices, 'arrivals' | 'logs' | 'intake'>;
  figures: Pick<ReplicaFigures, 'intake' | 'forwarders'>;
  /** Call once no more lines arrive. Finishes pending writes and tries a last time to forward. */
  stop(): Promise<void>;
}

export function openNodeLogs(parts: {
  db: Database;
  pool_redactors: PoolRedactors;
  clock: Clock;
  log: Log;
  settings: ServerSettings;
  limits: LogSettings;
  restoration: RestorationWatch;
}): NodeLogs {
  const { db, pool_redactors, clock, log, settings, limits, restoration } = parts;
  const forwarders = openLogForwarders(settings, { clock, log });
  const onStored = (stored: StoredLines) => {
    const lines = toForwardedLines(stored);
    for (const each of forwarders) each.take(lines);
  };
  const intake = createLogIntake(undefined, restoration.isObserving);
  const logs = createLogWriter({
    db,
    pool_redactors,
    ...limits,
    ...(forwarders.length > 0 && { onStored }),
    onError: (error) => log.error({ error }, 'could not write or compact log chunks; will retry'),
  });
  return {
    services: { arrivals: createLogArrivals(clock), logs, intake },
    figures: { intake: () => intake.figures(), forwarders: () => forwarders.map((each) => each.figures()) },
    async stop() {
      await logs.settled();
      await Promise.all(forwarders.map((each) => each.stop()));
    },
  };
}
