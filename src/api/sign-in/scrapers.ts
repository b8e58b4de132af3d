/**
 * Admits known callers of `/metrics` while the database is away, which could not check their
 * tokens. Otherwise no alert could name the cause. A token counts as known if this replica accepted
 * it before, for metrics; without the database the metrics contain nothing about the fleet.
 */
import { createHash } from 'node:crypto';
import { type Clock, now } from '../../base/clock.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Person } from '../http/callers.ts';

export interface Scrapers {
  admit(secret: string, check: () => Promise<Person>): Promise<Person>;
}

const maxKnown = 16;
const digestOf = (secret: string) => createHash('sha256').update(secret).digest('base64');

export function createScrapers(clock: Clock, isAway: () => boolean): Scrapers {
  const known = new Map<string, Person>();
  const remember = (digest: string, person: Person) => {
    known.delete(digest);
    known.set(digest, person);
    const [oldest] = known.keys();
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
  };
  const find = (digest: string): Person | undefined => {
    const person = known.get(digest);
    return person?.expires_at && person.expires_at <= now(clock) ? undefined : person;
  };
  return {
    async admit(secret, check) {
      const digest = digestOf(secret);
      const person = find(digest);
      if (person && isAway()) return person;
      try {
        const checked = await check();
        remember(digest, checked);
        return checked;
      } catch (error) {
        if (person && error instanceof StoreUnavailable) return person;
        if (!(error instanceof StoreUnavailable)) known.delete(digest);
        throw error;
      }
    },
  };
}
