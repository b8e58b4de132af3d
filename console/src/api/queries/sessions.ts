/** Reads and ends console sessions: your own, or all sessions if you are an admin. */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { act, call } from '../client.ts';

export const sessionsQuery = queryOptions({
  queryKey: keys.sessions(),
  queryFn: async ({ signal }) => (await call('session-list', { query: { limit: 500 }, signal })).items,
});

export const revokeSession = (id: string, idempotency_key: string) =>
  act('session-revoke', { params: { id }, idempotency_key });
