/** Shows and ends the time in which the servers only observe after a restore. */
import { iso, now } from '../../base/clock.ts';
import type { RestorationState } from '../../contract/supervision/restoration.ts';
import { endRestoration } from '../../operations/recovery/end-restoration.ts';
import { countDifferences, isComparing, listDifferences } from '../../store/backup/restoration-differences.ts';
import { readNewestRestoration } from '../../store/backup/restorations.ts';
import { defaultPageSize } from '../../store/pg/walk.ts';
import { callerOf } from '../routes/allocations.ts';
import type { ApiServices, Handlers } from '../services.ts';

async function readState({ db, clock }: ApiServices): Promise<RestorationState> {
  const newest = await readNewestRestoration(db);
  if (!newest) return { observing: false, newest: null };
  const { restoration_id: _, ended_at, ...restoration } = newest;
  return {
    observing: ended_at === null,
    newest: {
      ...restoration,
      began_at: restoration.began_at.toISOString(),
      comparing: ended_at === null && (await isComparing(db, newest, now(clock))),
      remembers_until: iso(restoration.remembers_until),
      inspected_at: iso(restoration.inspected_at),
      ended_at: iso(ended_at),
      differences: await countDifferences(db, newest),
    },
  };
}

type RestorationRoutes = 'restoration-get' | 'restoration-differences' | 'restoration-end';

export const restorationHandlers: Pick<Handlers, RestorationRoutes> = {
  'restoration-get': (_, services) => readState(services),
  async 'restoration-differences'({ query }, { db }) {
    const newest = await readNewestRestoration(db);
    if (!newest) return { items: [], next_cursor: null };
    const page = { cursor: query?.cursor ?? '', limit: query?.limit ?? defaultPageSize };
    const { items, cursor } = await listDifferences(db, newest, page);
    return {
      items: items.map((item) => ({
        ...item,
        first_seen_at: item.first_seen_at.toISOString(),
        seen_at: item.seen_at.toISOString(),
      })),
      next_cursor: cursor,
    };
  },
  async 'restoration-end'(call, services) {
    const { ended_at, quarantined } = await endRestoration(services, call.body, callerOf(call, call.body.reason));
    return { ended_at: ended_at.toISOString(), quarantined };
  },
};
