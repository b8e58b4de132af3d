/**
 * How many connections and waiting calls of people this replica holds at once. One token, one tenant and all tenants together
 * have a share each; what is left is for the people who run the fleet.
 */
import type { FastifyReply } from 'fastify';
import { ApiProblem } from '../../contract/errors.ts';
import type { Person } from '../services.ts';

export interface Shares {
  total: number;
  all_tenants: number;
  one_tenant: number;
  one_token: number;
}

export interface Places {
  /** Takes a place until the exchange is over, or throws the problem of a caller that has to wait. */
  hold(person: Person, reply: FastifyReply): void;
  held(): number;
}

/** Retrying sooner does not free a place. */
const retryAfterSeconds = 15;

/** A call may have ended while its caller was looked up; then the event has passed already. */
export function whenOver({ raw }: FastifyReply, act: () => void): void {
  if (raw.closed || raw.destroyed) act();
  else raw.once('close', act);
}

function countOf(counts: Map<string, number>, key: string) {
  const change = (by: number) => {
    const count = (counts.get(key) ?? 0) + by;
    if (count > 0) counts.set(key, count);
    else counts.delete(key);
  };
  return { now: () => counts.get(key) ?? 0, change };
}

/** `what` names in the plural what is held, for the message. */
export function createPlaces(what: string, shares: Shares): Places {
  const byToken = new Map<string, number>();
  const byTenant = new Map<string, number>();
  let total = 0;
  let ofTenants = 0;

  const refuse = (who: string, most: number) => {
    const detail = `${who} as many ${what} open as it may have: ${most}. Close some, or try again later.`;
    throw new ApiProblem('rate_limited', { detail, retry_after_seconds: retryAfterSeconds });
  };

  return {
    hold({ token_id, name, tenant }, reply) {
      const token = countOf(byToken, token_id);
      const own = tenant === null ? undefined : countOf(byTenant, tenant);
      if (token.now() >= shares.one_token) refuse(`The token ${name} has`, shares.one_token);
      if (own && own.now() >= shares.one_tenant) refuse(`The tenant ${tenant} has`, shares.one_tenant);
      if (own && ofTenants >= shares.all_tenants) refuse('This replica has for tenants', shares.all_tenants);
      if (total >= shares.total) refuse('This replica has', shares.total);
      const change = (by: 1 | -1) => {
        total += by;
        if (own) ofTenants += by;
        token.change(by);
        own?.change(by);
      };
      change(1);
      whenOver(reply, () => change(-1));
    },
    held: () => total,
  };
}

/** Beyond a thousand and some a replica would serve its readers late; the next ones try again, or another replica. */
export const streamShares: Shares = { total: 1_200, all_tenants: 800, one_tenant: 300, one_token: 200 };

/** Each looks at the store every two seconds. */
const logFollowShares: Shares = { total: 400, all_tenants: 250, one_tenant: 100, one_token: 50 };

export const openPlaces = () => ({
  streams: createPlaces('event streams', streamShares),
  log_follows: createPlaces('followed logs', logFollowShares),
});
