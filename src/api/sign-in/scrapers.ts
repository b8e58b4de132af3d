/**
 * Admits known callers of `/metrics` while the database is away, so that an alert can name the
 * cause. A token is known if this replica authorized it for metrics before. An unchecked caller
 * gets no metrics of the fleet, because the token may have been revoked since.
 */
import { createHash } from 'node:crypto';
import { type Clock, now } from '../../base/clock.ts';
import { StoreUnavailable } from '../../store/pg/database.ts';
import type { Person } from '../http/callers.ts';

export interface Scrapers {
  /** Runs `check`, or returns a known caller with `is_unchecked` while the database is away. */
  admit(secret: string, check: () => Promise<Person>): Promise<Person>;
  /** Call once the caller is authorized. Does nothing for an unchecked caller. */
  remember(secret: string, person: Person): void;
}

const maxKnown = 16;
const digestOf = (secret: string) => createHash('sha256').update(secret).digest('base64');

export function createScrapers(clock: Clock, isAway: () => boolean): Scrapers {
  const known = new Map<string, Person>();
  const find = (digest: string): Person | undefined => {
    const person = known.get(digest);
    if (!person || (person.expires_at && person.expires_at <= now(clock))) return undefined;
    return { ...person, is_unchecked: true };
  };
  return {
    async admit(secret, check) {
      const digest = digestOf(secret);
      const person = find(digest);
      if (person && isAway()) return person;
      try {
        const checked = await check();
        // The caller is known again once it is authorized.
        known.delete(digest);
        return checked;
      } catch (error) {
        if (person && error instanceof StoreUnavailable) return person;
        if (!(error instanceof StoreUnavailable)) known.delete(digest);
        throw error;
      }
    },
    remember(secret, person) {
      if (person.is_unchecked) return;
      const digest = digestOf(secret);
      known.delete(digest);
      known.set(digest, person);
      const [oldest] = known.keys();
      if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
    },
  };
}
