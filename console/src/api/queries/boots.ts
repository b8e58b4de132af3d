/** A pool's recorded boots, what another budget would have done to them, and setting one; only for those who see the whole fleet. */
import { queryOptions } from '@tanstack/react-query';
import type { BootPhase, PoolBoots } from '../../../../src/contract/boots.ts';
import { keys } from '../cache/keys.ts';
import { act, type BodyOf, call } from '../client.ts';

/** That the boots were asked and taught nothing is no fact in the stream; whoever has just let them decide waits for their word. */
const firstWordMs = 2000;
const awaitsFirstWord = ({ phases }: PoolBoots) =>
  phases.some(({ policy, learning }) => policy === 'learned' && learning === null);

export const poolBootsQuery = (pool: string) =>
  queryOptions({
    queryKey: keys.poolBoot(pool),
    queryFn: ({ signal }) => call('pool-boots', { params: { pool }, signal }),
    refetchInterval: ({ state: { data } }) => data !== undefined && awaitsFirstWord(data) && firstWordMs,
  });

/** Over the whole record, of which a page has only the newest. Asked anew whenever the boots are. */
export const whatIfQuery = (pool: string, phase: BootPhase['phase'], budget_seconds: number) =>
  queryOptions({
    queryKey: keys.whatIf(pool, phase, budget_seconds),
    queryFn: ({ signal }) => call('pool-what-if', { params: { pool }, body: { phase, budget_seconds }, signal }),
  });

export const setBudget = (pool: string, body: BodyOf<'pool-budget'>, idempotency_key: string) =>
  act('pool-budget', { params: { pool }, body, idempotency_key });
