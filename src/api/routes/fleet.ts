/** The whole fleet, compact. */
import { ApiProblem } from '../../contract/errors.ts';
import { parseFleetCursor, readFleet } from '../../store/fleet.ts';
import type { Handlers } from '../services.ts';

const defaultLimit = 10_000;

export const fleetHandlers: Pick<Handlers, 'fleet-get'> = {
  'fleet-get'({ query, person }, services) {
    const after = query?.cursor === undefined ? undefined : parseFleetCursor(query.cursor);
    if (query?.cursor !== undefined && !after) throw new ApiProblem('invalid_cursor');
    return readFleet(services.db, { after, limit: query?.limit ?? defaultLimit, tenant: person().tenant });
  },
};
