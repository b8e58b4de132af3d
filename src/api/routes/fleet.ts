/** Reads the whole fleet in a compact form, and counts it. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import { countFleet } from '../../store/rows/counts.ts';
import { parseFleetCursor, readFleet } from '../../store/rows/fleet/fleet.ts';
import type { Handlers } from '../services.ts';

const defaultLimit = 10_000;

export const fleetHandlers: Pick<Handlers, 'fleet-get' | 'fleet-count'> = {
  'fleet-get'({ query, person }, services) {
    const after = query?.cursor === undefined ? undefined : parseFleetCursor(query.cursor);
    if (query?.cursor !== undefined && !after) throw new ApiProblem('invalid_cursor');
    const limit = query?.limit ?? defaultLimit;
    return readFleet(services.db, { after, limit, pool: query?.pool, visibility: person().visibility });
  },
  'fleet-count': async (_, services) => ({ items: await countFleet(services.db) }),
};
