/**
 * Reads a pool's recorded boots, asks what another budget would have done, and sets a budget. Not
 * for tenants.
 */
import { queryOptions } from '@tanstack/react-query';
import type { BootPhase, PoolBoots } from '../../../../src/contract/supervision/boots.ts';
import { keys } from '../cache/keys.ts';
import { act, type BodyOf, call } from '../client.ts';

/**
 * A learning run that learned nothing leaves no evidence, so poll until the first result exists.
 */
const firstResultPollMs = 2000;
const awaitsFirstResult = ({ phases }: PoolBoots) =>
  phases.some(({ policy, learning }) => policy === 'learned' && learning === null);

export const poolBootsQuery = (pool: string) =>
  queryOptions({
    queryKey: keys.bootStatisticsOf(pool),
    queryFn: ({ signal }) => call('pool-boots', { params: { pool }, signal }),
    refetchInterval: ({ state: { data } }) => data !== undefined && awaitsFirstResult(data) && firstResultPollMs,
  });

/** The server judges the budget over the whole record; the page holds only the newest boots. */
export const whatIfQuery = (pool: string, phase: BootPhase['phase'], budget_seconds: number) =>
  queryOptions({
    queryKey: keys.whatIf(pool, phase, budget_seconds),
    queryFn: ({ signal }) => call('pool-what-if', { params: { pool }, body: { phase, budget_seconds }, signal }),
  });

export const setBudget = (pool: string, body: BodyOf<'pool-budget'>, idempotency_key: string) =>
  act('pool-budget', { params: { pool }, body, idempotency_key });
