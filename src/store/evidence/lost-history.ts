/** Logs a failover or a restore while this replica runs, and records lost facts as evidence. */
import { type Clock, now, pause } from '../../base/clock.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import type { EvidenceTail } from './tail.ts';

const retryMs = 500;
const maxTries = 60;

export function recordLostHistory(options: {
  db: Database;
  clock: Clock;
  tail: EvidenceTail;
  log: Pick<Log, 'warn' | 'info'>;
  onError(what: string): (error: unknown) => void;
}): void {
  const { db, clock, tail, log } = options;
  tail.whenHistoryChanged((change) => {
    if (!change.lost) {
      log.info(change, 'another database serves now; it has everything that this replica had read');
      return;
    }
    log.warn(change, 'the database lost its newest commits; everything is read again and negative verdicts wait');
    const loss: Fact = {
      at: now(clock),
      layer: 'store',
      kind: 'evidence.lost',
      summary: 'The database lost its newest commits in a failover or a restore.',
      data: { ...change },
    };
    const record = async (triesLeft: number): Promise<void> => {
      try {
        await recordEvidence(db, [loss]);
      } catch (error) {
        // Connections to the former database may still be in the pool.
        if (!(error instanceof StoreUnavailable) || triesLeft === 0) throw error;
        await pause(clock, retryMs);
        await record(triesLeft - 1);
      }
    };
    record(maxTries).catch(options.onError('the loss of commits was not recorded'));
  });
}
