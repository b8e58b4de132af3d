/** Opens and closes the limits on callers of one replica. */
import type { Clock } from '../../../base/clock.ts';
import type { NodeInstanceId } from '../../../base/ids.ts';
import type { LimitSettings } from '../../../lifecycle/limits/limits.ts';
import type { EvidenceTail } from '../../../store/evidence/tail.ts';
import type { Database } from '../../../store/pg/database.ts';
import { createRefusedBeats, type ReportRefusedBeat } from '../../heartbeats/refused-beats.ts';
import { createDeferredReports, type DeferredReports } from './deferred-reports.ts';
import { createRequestRates, type RequestRates } from './request-rates.ts';
import { createWriteLimits, type WriteLimits } from './write-limits.ts';

export interface Limits {
  writeLimits: WriteLimits;
  deferred: DeferredReports;
  rates: RequestRates;
  reportRefusedBeat: ReportRefusedBeat;
}

export function openLimits(options: {
  db: Database;
  clock: Clock;
  limits: LimitSettings;
  tail: Pick<EvidenceTail, 'subscribe'>;
  onError(message: string): (error: unknown) => void;
  parts: AsyncDisposableStack;
}): Limits {
  const { db, clock, limits, parts } = options;
  const onError = options.onError('could not report dropped facts');
  const writeLimits = createWriteLimits({ db, clock, limits, onError });
  options.tail.subscribe(({ kind, node_instance_id }) => {
    // The machine was assigned to an allocation, whose tenant must not pay for earlier writes.
    if (kind === 'allocation.provisioning' && node_instance_id)
      writeLimits.resetInstance(node_instance_id as NodeInstanceId);
  });
  const deferred = createDeferredReports(clock);
  const refusedBeats = createRefusedBeats(
    db,
    clock,
    writeLimits,
    options.onError('could not record refused heartbeats'),
  );
  parts.defer(async () => {
    deferred.stop();
    await refusedBeats.stop();
    await writeLimits.stop();
  });
  const rates = createRequestRates(clock, limits.requests);
  return { writeLimits, deferred, rates, reportRefusedBeat: refusedBeats.report };
}
