import { expect, test } from 'vitest';
import { moment, secondsLater } from '../../base/clock.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Person } from '../http/callers.ts';
import { createScrapers } from './scrapers.ts';

const clock = virtualClock();
const person = (name: string, expires_at: Date | null = null): Person => ({
  ...{ token_id: 'tok_1' as Person['token_id'], name, role: 'viewer', visibility: wholeFleet, session_id: null },
  expires_at,
});
const failing = (error: Error) => async (): Promise<Person> => {
  throw error;
};
const away = failing(new StoreUnavailable('away'));

test('admits only known callers without the database, and asks nothing while it is away', async () => {
  let isAway = false;
  const scrapers = createScrapers(clock, () => isAway);
  await expect(scrapers.admit('a', away)).rejects.toThrow('away');
  const prometheus = person('prometheus');
  expect(await scrapers.admit('a', async () => prometheus)).toBe(prometheus);
  expect(await scrapers.admit('a', away)).toBe(prometheus);
  await expect(scrapers.admit('b', away)).rejects.toThrow('away');
  isAway = true;
  const hangs = () => new Promise<Person>(() => {});
  expect(await scrapers.admit('a', hangs)).toBe(prometheus);
});

test('forgets a caller whose token was refused or has expired', async () => {
  const scrapers = createScrapers(clock, () => false);
  await scrapers.admit('revoked', async () => person('revoked'));
  await expect(scrapers.admit('revoked', failing(new Error('unknown token')))).rejects.toThrow('unknown token');
  await expect(scrapers.admit('revoked', away)).rejects.toThrow('away');
  await scrapers.admit('expiring', async () => person('expiring', secondsLater(moment(clock.nowMs()), 60)));
  await scrapers.admit('expiring', away);
  await clock.advance(60_000);
  await expect(scrapers.admit('expiring', away)).rejects.toThrow('away');
});

test('knows a bounded number of callers', async () => {
  const scrapers = createScrapers(clock, () => false);
  for (let i = 0; i < 17; i++) await scrapers.admit(`token ${i}`, async () => person(`token ${i}`));
  await expect(scrapers.admit('token 0', away)).rejects.toThrow('away');
  expect((await scrapers.admit('token 16', away)).name).toBe('token 16');
});
