/**
 * Reads the brake, the sweeps and the server's status, and ends a hold. The server refuses all of
 * them to tenants.
 */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { act, call } from '../client.ts';
import { seesWholeFleet, useSession } from '../session.ts';

export const brakeQuery = queryOptions({
  queryKey: keys.brake(),
  queryFn: ({ signal }) => call('brake-get', { signal }),
});

/**
 * Polled, because sweep runs leave no evidence: one run a second per sweep would flood the
 * timeline.
 */
const sweepsMs = 5000;

export const sweepsQuery = queryOptions({
  queryKey: keys.sweeps(),
  refetchInterval: sweepsMs,
  queryFn: ({ signal }) => call('sweep-list', { signal }),
});

/** Polled, because server problems leave no evidence: the database itself may have failed. */
const statusMs = 10_000;

export const serverStatusQuery = queryOptions({
  queryKey: keys.serverStatus(),
  refetchInterval: statusMs,
  queryFn: ({ signal }) => call('server-status', { signal }),
});

export const resumeBrake = (hold_id: string, reason: string, idempotency_key: string) =>
  act('brake-resume', { body: { hold_id, reason }, idempotency_key });

/** Undefined for tenants and while loading. */
export const useBrake = () => useQuery({ ...brakeQuery, enabled: seesWholeFleet(useSession()) }).data;
