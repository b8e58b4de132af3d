import { expect, test } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Person } from '../http/callers.ts';
import { createScrapers, type Scrapers } from './scrapers.ts';

const clock = virtualClock();
const person = (name: string, expires_at: Date | null = null): Person => ({
  ...{ token_id: 'tok_1' as Person['token_id'], name, role: 'viewer', visibility: wholeFleet, session_id: null },
  expires_at,
});
const failing = (error: Error) => async (): Promise<Person> => {
  throw error;
};
const checkWhileAway = failing(new StoreUnavailable('away'));

/** Admits and authorizes a caller. */
async function scrape(scrapers: Scrapers, secret: string, check: () => Promise<Person>): Promise<Person> {
  const admitted = await scrapers.admit(secret, check);
  scrapers.remember(secret, admitted);
  return admitted;
}

test('admits only known callers while the database is away, and skips the check once the outage is detected', async () => {
  let isAway = false;
  const scrapers = createScrapers(clock, () => isAway);
  await expect(scrapers.admit('a', checkWhileAway)).rejects.toThrow('away');
  const prometheus = person('prometheus');
  expect(await scrape(scrapers, 'a', async () => prometheus)).toBe(prometheus);
  const unchecked = { ...prometheus, is_unchecked: true };
  expect(await scrape(scrapers, 'a', checkWhileAway)).toEqual(unchecked);
  await expect(scrapers.admit('b', checkWhileAway)).rejects.toThrow('away');
  isAway = true;
  const hangingCheck = () => new Promise<Person>(() => {});
  expect(await scrape(scrapers, 'a', hangingCheck)).toEqual(unchecked);
  isAway = false;
  expect(await scrape(scrapers, 'a', async () => prometheus)).toBe(prometheus);
});

test('during an outage, refuses a caller that was never authorized or no longer is', async () => {
  const scrapers = createScrapers(clock, () => false);
  const tenant = person('tenant');
  await scrapers.admit('tenant', async () => tenant);
  await expect(scrapers.admit('tenant', checkWhileAway)).rejects.toThrow('away');
  await scrape(scrapers, 'tenant', async () => tenant);
  await scrapers.admit('tenant', async () => tenant);
  await expect(scrapers.admit('tenant', checkWhileAway)).rejects.toThrow('away');
});

test('forgets a caller whose token was refused or has expired', async () => {
  const scrapers = createScrapers(clock, () => false);
  await scrape(scrapers, 'revoked', async () => person('revoked'));
  await expect(scrapers.admit('revoked', failing(new Error('unknown token')))).rejects.toThrow('unknown token');
  await expect(scrapers.admit('revoked', checkWhileAway)).rejects.toThrow('away');
  await scrape(scrapers, 'expiring', async () => person('expiring', secondsLater(moment(clock.nowMs()), 60)));
  await scrapers.admit('expiring', checkWhileAway);
  await clock.advance(60_000);
  await expect(scrapers.admit('expiring', checkWhileAway)).rejects.toThrow('away');
});

test('remembers a bounded number of callers', async () => {
  const scrapers = createScrapers(clock, () => false);
  for (let i = 0; i < 17; i++) await scrape(scrapers, `token ${i}`, async () => person(`token ${i}`));
  await expect(scrapers.admit('token 0', checkWhileAway)).rejects.toThrow('away');
  expect((await scrapers.admit('token 16', checkWhileAway)).name).toBe('token 16');
});
