/**
 * Reads, creates and revokes tokens, for admins, and reads the server's settings, for operators of
 * the whole fleet.
 */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { act, type BodyOf, call } from '../client.ts';

export const tokensQuery = queryOptions({
  queryKey: keys.tokens(),
  queryFn: async ({ signal }) => (await call('token-list', { signal })).items,
});

export const settingsQuery = queryOptions({
  queryKey: keys.settings(),
  queryFn: ({ signal }) => call('settings-get', { signal }),
});

export const createToken = (body: BodyOf<'token-create'>, idempotency_key: string) =>
  act('token-create', { body, idempotency_key });

export const revokeToken = (id: string, idempotency_key: string) =>
  act('token-delete', { params: { id }, idempotency_key });
