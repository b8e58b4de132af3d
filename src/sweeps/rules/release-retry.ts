/** `release-retry`: release_failed → releasing, after growing pauses, without a limit on tries. */
import { newCorrelationId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { releaseIn } from '../../operations/release/release-requests.ts';
import { lockRetryableReleases } from '../../store/supervision/past-deadline.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const batch = 20;

export const releaseRetry = (services: SweepServices): Sweep => ({
  name: 'release-retry',
  every_seconds: 2,
  run: (now) =>
    services.db.transaction(async (tx) => {
      const due = await lockRetryableReleases(tx, now, batch);
      for (const allocation of due) {
        const caller = {
          actor: null,
          visibility: wholeFleet,
          correlation_id: allocation.correlation_id ?? newCorrelationId(),
          reason: `try ${allocation.release_tries + 1} of the release`,
        };
        await releaseIn(tx, services, allocation.allocation_id, caller, 'release-retry');
      }
      return { decided: due.length };
    }),
});
