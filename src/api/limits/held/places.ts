/**
 * Limits the connections and long calls that people hold on this replica. Tokens, tenants and all
 * tenants together have a share each; the rest is for the fleet's operators. Part of the tenants'
 * share is kept for tenants that hold few, so that large tenants cannot shut the others out.
 */
import type { FastifyReply } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { Person } from '../../http/callers.ts';

export interface Shares {
  total: number;
  all_tenants: number;
  one_tenant: number;
  one_token: number;
  /** Of `all_tenants`, this many are for tenants that hold fewer than `few`. */
  kept: number;
  few: number;
  /** How long places are usually held; retrying sooner frees none. */
  retry_after_seconds: number;
}

type Holder = Pick<Person, 'token_id' | 'name' | 'visibility'>;

export interface Places {
  /** Takes a place or throws 429. Returns how to give it back. */
  take(holder: Holder): () => void;
  /** Takes a place until the response is closed. */
  hold(holder: Holder, reply: FastifyReply): void;
  held(): number;
}

/**
 * The response may have closed while the caller was looked up; then the event has passed already.
 */
export function onClose({ raw }: FastifyReply, act: () => void): void {
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

/** `what` is the plural noun for the message. */
export function createPlaces(what: string, shares: Shares): Places {
  const byToken = new Map<string, number>();
  const byTenant = new Map<string, number>();
  let total = 0;
  let ofTenants = 0;

  const { retry_after_seconds } = shares;
  const refuse = (who: string, max: number) => {
    const detail = `${who} reached its limit of ${max} ${what}. Close some, or try again later.`;
    throw new ApiProblem('rate_limited', { detail, retry_after_seconds });
  };

  const take = ({ token_id, name, visibility }: Holder) => {
    const token = countOf(byToken, token_id);
    const tenant = visibility.kind === 'fleet' ? undefined : visibility.tenant;
    const own = tenant === undefined ? undefined : countOf(byTenant, tenant);
    if (token.now() >= shares.one_token) refuse(`The token ${name}`, shares.one_token);
    if (own) {
      if (own.now() >= shares.one_tenant) refuse(`The tenant ${tenant}`, shares.one_tenant);
      const ofAll = own.now() < shares.few ? shares.all_tenants : shares.all_tenants - shares.kept;
      if (ofTenants >= ofAll) refuse('This replica (all tenants together)', ofAll);
    }
    if (total >= shares.total) refuse('This replica', shares.total);
    const change = (by: 1 | -1) => {
      total += by;
      if (own) ofTenants += by;
      token.change(by);
      own?.change(by);
    };
    change(1);
    let isHeld = true;
    return () => {
      if (isHeld) change(-1);
      isHeld = false;
    };
  };

  return {
    take,
    hold: (holder, reply) => onClose(reply, take(holder)),
    held: () => total,
  };
}

/**
 * With more readers a replica would serve them late. Further ones retry, or use another replica.
 */
export const streamShares: Shares = {
  ...{ total: 1_200, all_tenants: 800, one_tenant: 300, one_token: 200 },
  ...{ kept: 200, few: 10, retry_after_seconds: 15 },
};

/** Each polls the store every two seconds. */
const logFollowShares: Shares = {
  ...{ total: 400, all_tenants: 250, one_tenant: 100, one_token: 50 },
  ...{ kept: 60, few: 5, retry_after_seconds: 15 },
};

/** Each reads page after page; together they must leave database connections to the rest. */
const catchUpShares: Shares = {
  ...{ total: 12, all_tenants: 8, one_tenant: 4, one_token: 3 },
  ...{ kept: 3, few: 1, retry_after_seconds: 5 },
};

/** Each unpacks up to 32 MB of lines on the one thread that serves everybody. */
const logSearchShares: Shares = {
  ...{ total: 24, all_tenants: 16, one_tenant: 6, one_token: 4 },
  ...{ kept: 4, few: 1, retry_after_seconds: 2 },
};

export const openPlaces = () => ({
  streams: createPlaces('event streams', streamShares),
  log_follows: createPlaces('followed logs', logFollowShares),
  /** Streams that resume from a cursor more than a page behind, until they are live. */
  catch_ups: createPlaces('streams catching up', catchUpShares),
  log_searches: createPlaces('log searches', logSearchShares),
});
