/**
 * Reads who is signed in. The server enforces roles; the console only hides actions that the server
 * would refuse.
 */
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import type { Role, Session } from '../../../src/contract/security/token.ts';
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

/** Tenants see neither pools nor fleet-wide counts. */
export const seesWholeFleet = (session: Session): boolean => session.tenant === null;
