/**
 * Limits the connections and long calls that people hold on this replica. There is a limit for each
 * token, each tenant and all tenants together; the rest is left to the fleet's operators.
 * Some places are reserved for tenants that hold few, so that large tenants cannot take them all.
 */
import type { FastifyReply } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { Person } from '../../http/callers.ts';

export interface Shares {
  total: number;
  all_tenants: number;
  one_tenant: number;
  one_token: number;
  /** The part of `all_tenants` reserved for tenants that hold fewer than `few` places. */
  reserved: number;
  few: number;
  /** How long a place is usually held; an earlier retry would rarely find one. */
  retry_after_seconds: number;
}

type Holder = Pick<Person, 'token_id' | 'name' | 'visibility'>;

export interface Places {
  /** Takes a place or throws 429. Returns a function that releases the place. */
  take(holder: Holder): () => void;
  /** Takes a place until the response is closed. */
  hold(holder: Holder, reply: FastifyReply): void;
  held(): number;
}

/**
 * Acts at once if the response has already closed, for example while the caller was looked up: the
 * close event would not come again.
 */
export function onClose({ raw }: FastifyReply, act: () => void): void {
  if (raw.closed || raw.destroyed) act();
  else raw.once('close', act);
}

function counterOf(counts: Map<string, number>, key: string) {
  const change = (by: number) => {
    const count = (counts.get(key) ?? 0) + by;
    if (count > 0) counts.set(key, count);
    else counts.delete(key);
  };
  return { value: () => counts.get(key) ?? 0, change };
}

/** `noun` is plural and appears in messages, such as "event streams". */
export function createPlaces(noun: string, shares: Shares): Places {
  const byToken = new Map<string, number>();
  const byTenant = new Map<string, number>();
  let total = 0;
  let tenantTotal = 0;

  const { retry_after_seconds } = shares;
  const refuse = (subject: string, max: number) => {
    const detail = `${subject} reached its limit of ${max} ${noun}. Close some, or try again later.`;
    throw new ApiProblem('rate_limited', { detail, retry_after_seconds });
  };

  const take = ({ token_id, name, visibility }: Holder) => {
    const tokenCounter = counterOf(byToken, token_id);
    const tenant = visibility.kind === 'fleet' ? undefined : visibility.tenant;
    const tenantCounter = tenant === undefined ? undefined : counterOf(byTenant, tenant);
    if (tokenCounter.value() >= shares.one_token) refuse(`The token ${name}`, shares.one_token);
    if (tenantCounter) {
      if (tenantCounter.value() >= shares.one_tenant) refuse(`The tenant ${tenant}`, shares.one_tenant);
      const max = tenantCounter.value() < shares.few ? shares.all_tenants : shares.all_tenants - shares.reserved;
      if (tenantTotal >= max) refuse('This replica (all tenants together)', max);
    }
    if (total >= shares.total) refuse('This replica', shares.total);
    const change = (by: 1 | -1) => {
      total += by;
      if (tenantCounter) tenantTotal += by;
      tokenCounter.change(by);
      tenantCounter?.change(by);
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
 * With more readers than this, events would reach them late. Further readers retry or use another
 * replica.
 */
export const streamShares: Shares = {
  ...{ total: 1_200, all_tenants: 800, one_tenant: 300, one_token: 200 },
  ...{ reserved: 200, few: 10, retry_after_seconds: 15 },
};

/** Each followed log polls the store every two seconds. */
const logFollowShares: Shares = {
  ...{ total: 400, all_tenants: 250, one_tenant: 100, one_token: 50 },
  ...{ reserved: 60, few: 5, retry_after_seconds: 15 },
};

/** Each catch-up reads page after page; other requests must still get database connections. */
const catchUpShares: Shares = {
  ...{ total: 12, all_tenants: 8, one_tenant: 4, one_token: 3 },
  ...{ reserved: 3, few: 1, retry_after_seconds: 5 },
};

/** Each search unpacks up to 32 MB of lines on the thread that serves all callers. */
const logSearchShares: Shares = {
  ...{ total: 24, all_tenants: 16, one_tenant: 6, one_token: 4 },
  ...{ reserved: 4, few: 1, retry_after_seconds: 2 },
};

export const openPlaces = () => ({
  streams: createPlaces('event streams', streamShares),
  log_follows: createPlaces('followed logs', logFollowShares),
  /** Streams that resume from a cursor more than a page behind, until they are live. */
  catch_ups: createPlaces('streams catching up', catchUpShares),
  log_searches: createPlaces('log searches', logSearchShares),
});
