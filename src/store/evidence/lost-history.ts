/** Logs failovers and restores while this replica runs, and records a loss of facts as evidence. */
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
  onError(message: string): (error: unknown) => void;
}): void {
  const { db, clock, tail, log } = options;
  tail.whenHistoryChanged((change) => {
    if (!change.lost) {
      log.info(change, 'the connections reach another database server; it has every fact that this replica read');
      return;
    }
    log.warn(
      change,
      'the database lost its newest commits; this replica reads its caches again and delays negative verdicts',
    );
    const loss: Fact = {
      at: now(clock),
      layer: 'store',
      kind: 'evidence.lost',
      summary: 'The database lost its newest commits in a failover or a restore.',
      data: { ...change },
    };
    const recordLoss = async (triesLeft: number): Promise<void> => {
      try {
        await recordEvidence(db, [loss]);
      } catch (error) {
        // Connections to the former database may still be in the pool.
        if (!(error instanceof StoreUnavailable) || triesLeft === 0) throw error;
        await pause(clock, retryMs);
        await recordLoss(triesLeft - 1);
      }
    };
    recordLoss(maxTries).catch(options.onError('the loss of commits was not recorded'));
  });
}
