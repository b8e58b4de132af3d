/** Who is signed in, and what that allows. The server decides; this only keeps the console from offering what it would refuse. */
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import type { Role, Session } from '../../../src/contract/token.ts';
import { call } from './client.ts';

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => call('session-get', { signal }),
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
});

export const useSession = (): Session => useSuspenseQuery(sessionQuery).data;

const rank: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

export const mayOperate = (session: Session): boolean => rank[session.role] >= rank.operator;

export const isAdmin = (session: Session): boolean => session.role === 'admin' && session.tenant === null;

/** Pools and counts are not for tenants. */
export const seesWholeFleet = (session: Session): boolean => session.tenant === null;
