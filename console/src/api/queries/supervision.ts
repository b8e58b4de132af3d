/** Reads the brake and the sweeps, and resumes a hold. The server refuses all of it to tenants. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { act, call } from '../client.ts';
import { seesWholeFleet, useSession } from '../session.ts';

export const brakeQuery = queryOptions({
  queryKey: keys.brake(),
  queryFn: ({ signal }) => call('brake-get', { signal }),
});

/**
 * Sweep runs leave no evidence, because one run a second per rule would flood the timeline. So they
 * are polled.
 */
const sweepsMs = 5000;

export const sweepsQuery = queryOptions({
  queryKey: keys.sweeps(),
  refetchInterval: sweepsMs,
  queryFn: ({ signal }) => call('sweep-list', { signal }),
});

export const resumeBrake = (hold_id: string, reason: string, idempotency_key: string) =>
  act('brake-resume', { body: { hold_id, reason }, idempotency_key });

/** Undefined for tenants and while loading. */
export const useBrake = () => useQuery({ ...brakeQuery, enabled: seesWholeFleet(useSession()) }).data;
