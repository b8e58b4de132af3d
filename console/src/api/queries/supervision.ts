/** Reads of the rules at work, and the way to let go what they hold; only for those who see the whole fleet. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { act, call } from '../client.ts';
import { seesWholeFleet, useSession } from '../session.ts';

export const brakeQuery = queryOptions({
  queryKey: keys.brake(),
  queryFn: ({ signal }) => call('brake-get', { signal }),
});

/** Runs are not evidence: nobody would read one a second for each rule. */
const sweepsMs = 5000;

export const sweepsQuery = queryOptions({
  queryKey: keys.sweeps(),
  refetchInterval: sweepsMs,
  queryFn: ({ signal }) => call('sweep-list', { signal }),
});

export const resumeBrake = (hold_id: string, reason: string, idempotency_key: string) =>
  act('brake-resume', { body: { hold_id, reason }, idempotency_key });

/** Nothing for tenants, and while it is being read. */
export const useBrake = () => useQuery({ ...brakeQuery, enabled: seesWholeFleet(useSession()) }).data;
