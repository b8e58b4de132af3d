/**
 * Limits how often one caller may call. A caller over its rate gets 429. A caller that is refused
 * too often gets its refusals late, which slows a flood without refusing others at its address.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, pause } from '../../../base/clock.ts';
import type { ProtocolOperation } from '../../../contract/compat/routes.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { maxPageItems } from '../../../contract/primitives.ts';
import type { RouteDeclaration } from '../../../contract/route.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { type RateSettings, type RequestRate, requestKinds } from '../../../lifecycle/limits/limits.ts';
import type { AgentSession } from '../../../store/agents/sessions/agent-sessions.ts';
import { defaultPageSize } from '../../../store/pg/walk.ts';
import { sourceNetwork } from '../../http/source-address.ts';
import { createAccounts } from './accounts.ts';

type Kind = (typeof requestKinds)[number];

/**
 * The sender of credentials that must be looked up, or of a signed request for a new credential: a
 * relay or a source address.
 */
export interface LookupSource {
  kind: 'address' | 'relay';
  id: string;
}

export interface RequestRates {
  /**
   * Throws 429 for a caller over its rate. Callers without a credential are limited only on public
   * routes.
   */
  admit(request: FastifyRequest, name: OperationName, route: RouteDeclaration): void;
  /**
   * Like `admit`, for a caller that is identified by other means than `request`. If `request` is
   * passed, its reply is charged as well.
   */
  admitKnown(kind: Kind, key: string, name: OperationName | ProtocolOperation, request?: FastifyRequest): void;
  /**
   * Call before looking up credentials that are not cached, or before checking a signed request for
   * a new credential. Returns undefined if the source sent too many unknown ones, or if lookups in
   * progress have reserved the rest of its allowance. Otherwise, call the returned function
   * afterwards with the number that were unknown.
   */
  beginLookup(source: LookupSource, credentials: number): ((unknown: number) => void) | undefined;
  /**
   * Charges what the actual reply costs beyond the cost charged before. Refunds the difference if a
   * page was smaller than estimated.
   */
  chargeReply(request: FastifyRequest, bytes: number): void;
  /**
   * Charges the catch-up page of a resumed stream by its estimated size, because `admit` charges
   * only the request. Call before the page is read.
   */
  chargePage(request: FastifyRequest, items: number): void;
  /**
   * Delays a refusal to a caller that was refused too often. If too many refusals are delayed
   * already, closes the connection after the reply instead.
   */
  delayRefusal(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Returns the delay before a heartbeat is answered: 0 unless the machine sends very many. */
  beatDelayMs(session: AgentSession, nowMs: number): number;
  figures(): { delayed: number; limited: number };
}

const healthChecks: readonly OperationName[] = ['health-get', 'readiness-get'];
/** A reply of this size costs the server about as much as a request. */
const bytesPerRequest = 16 * 1024;
const usualItemBytes = 1536;
/**
 * Calls that count as several requests: they start an operation, or are slow to compute or list.
 */
const callCosts: Partial<Record<OperationName | ProtocolOperation, number>> = {
  'allocation-create': 5,
  'allocation-release': 5,
  'allocation-retry': 5,
  'allocation-certificate': 20,
  'agentfield-node-list': 20,
};
const requestsOf = (bytes: number) => Math.max(1, Math.ceil(bytes / bytesPerRequest));
/** Returns the requested page length, or 0 if the route has no pages. Validation comes later. */
function countPageItems({ query }: FastifyRequest, route: RouteDeclaration): number {
  if (!Object.hasOwn((route.query as { properties?: object } | undefined)?.properties ?? {}, 'limit')) return 0;
  const limit = Number((query as { limit?: string }).limit);
  return limit > 0 ? Math.min(limit, maxPageItems) : defaultPageSize;
}
/** Operations that are counted separately from the caller's other requests. */
const ownRates: Partial<Record<OperationName, Kind>> = { 'agent-credential-rotate': 'rotation' };
/** How messages name the caller, where that differs from the kind. */
const callerWords: Partial<Record<Kind, string>> = {
  instance: 'machine',
  rotation: 'machine',
  sign_in: 'token',
  join_token: 'join token',
};
const maxRetrySeconds = 60;
const delayMs = 1_000;
const maxDelayedPerCaller = 128;
const maxDelayed = 4_000;
/** No agent sends this many. */
const maxBeatsPerSecond = 50;

/** Counts requests as rows. Bytes are never charged, so their limits have no effect. */
const quotaOf = ({ burst, per_second }: RequestRate) => ({
  ...{ rows: burst, rows_per_second: per_second, bytes: 1, bytes_per_second: 1 },
});

export function createRequestRates(clock: Clock, limits: RateSettings): RequestRates {
  const accounts = createAccounts(clock);
  const quotas = Object.fromEntries(requestKinds.map((kind) => [kind, quotaOf(limits[kind])])) as Record<
    Kind,
    ReturnType<typeof quotaOf>
  >;
  const delayedByCaller = new Map<string, number>();
  let delayedTotal = 0;
  let limited = 0;
  /** Counts the heartbeats of each machine in `beatSecond`. */
  let beatCounts = new Map<AgentSession, number>();
  let beatSecond = 0;

  /**
   * The charge made before each request is served. Requests charged to an address have no entry,
   * since several callers may share an address.
   */
  const charges = new WeakMap<FastifyRequest, { key: string; kind: Kind; requests: number; isPage: boolean }>();

  /** Returns undefined for callers without a limit: relays and fleet-wide tokens. */
  const callerOf = (request: FastifyRequest): { kind: Kind; key: string } | undefined => {
    const { agent_session, person, relay } = request;
    if (agent_session) return { kind: 'instance', key: agent_session.node_instance_id };
    const visibility = person?.visibility;
    if (visibility) return visibility.kind === 'fleet' ? undefined : { kind: 'tenant', key: visibility.tenant };
    return relay ? undefined : { kind: 'address', key: sourceNetwork(request) };
  };
  /** Returns the seconds to wait, or charges the caller and returns 0. */
  const chargeOrWait = (key: string, quota: ReturnType<typeof quotaOf>, requests = 1): number => {
    const seconds = accounts.waitSeconds(key, quota);
    if (seconds === 0) accounts.charge(key, quota, requests, 0);
    return seconds;
  };

  const refuse = (name: OperationName | ProtocolOperation, kind: Kind, seconds: number): never => {
    limited++;
    throw new ApiProblem('rate_limited', {
      detail: `This ${callerWords[kind] ?? kind} sent too many requests, so ${name} was refused.`,
      retry_after_seconds: Math.min(Math.ceil(seconds), maxRetrySeconds),
    });
  };

  return {
    admitKnown(kind, caller, name, request) {
      const key = `${kind} ${caller}`;
      const requests = callCosts[name] ?? 1;
      const seconds = chargeOrWait(key, quotas[kind], requests);
      if (seconds > 0) refuse(name, kind, seconds);
      if (request) charges.set(request, { key, kind, requests, isPage: false });
    },
    beginLookup({ kind, id }, credentials) {
      const key = `unknown_credential ${kind} ${id}`;
      const quota = quotas.unknown_credential;
      if (accounts.waitSeconds(key, quota) > 0) return undefined;
      // Reserve nothing for a relay: after a restart of this replica, many credentials of its
      // machines must be looked up, and a reservation would refuse its concurrent batches.
      const reserved = kind === 'relay' ? 0 : credentials;
      accounts.reserve(key, quota, reserved, 0);
      return (unknown) => {
        accounts.release(key, reserved, 0);
        if (unknown > 0) accounts.charge(key, quota, unknown, 0);
      };
    },
    admit(request, name, route) {
      // Log lines have their own limit in bytes. Health checks share their address with other
      // callers.
      if (route.shares_log_intake || healthChecks.includes(name)) return;
      const caller = callerOf(request);
      if (!caller || (caller.kind === 'address' && route.access.kind !== 'public')) return;
      const kind = ownRates[name] ?? caller.kind;
      const key = `${kind} ${caller.key}`;
      const items = countPageItems(request, route);
      const requests = callCosts[name] ?? requestsOf(items * usualItemBytes);
      const seconds = chargeOrWait(key, quotas[kind], requests);
      if (seconds > 0) refuse(name, caller.kind, seconds);
      if (caller.kind !== 'address') charges.set(request, { key, kind, requests, isPage: items > 0 });
    },
    chargeReply(request, bytes) {
      const estimate = charges.get(request);
      if (!estimate) return;
      charges.delete(request);
      const difference = requestsOf(bytes) - estimate.requests;
      if (difference > 0 || estimate.isPage) accounts.charge(estimate.key, quotas[estimate.kind], difference, 0);
    },
    chargePage(request, items) {
      const charge = charges.get(request);
      if (charge) accounts.charge(charge.key, quotas[charge.kind], requestsOf(items * usualItemBytes), 0);
    },
    async delayRefusal(request, reply) {
      const caller = callerOf(request);
      if (!caller) return;
      const key = `${caller.kind} ${caller.key}`;
      if (chargeOrWait(`refused ${key}`, quotas.refused) === 0) return;
      const delayedCount = delayedByCaller.get(key) ?? 0;
      if (delayedCount >= maxDelayedPerCaller || delayedTotal >= maxDelayed) {
        reply.header('connection', 'close');
        return;
      }
      delayedByCaller.set(key, delayedCount + 1);
      delayedTotal++;
      // The delay is random, since refusals sent together cause requests that arrive together.
      await pause(clock, delayMs * (1 + Math.random()));
      delayedTotal--;
      const remaining = (delayedByCaller.get(key) ?? 1) - 1;
      if (remaining > 0) delayedByCaller.set(key, remaining);
      else delayedByCaller.delete(key);
    },
    beatDelayMs(session, nowMs) {
      const second = Math.ceil(nowMs / 1000);
      // `assigned_at_seconds` is when the last heartbeat arrived, mostly in an earlier second.
      if (session.assigned_at_seconds !== second) return 0;
      if (beatSecond !== second) {
        beatSecond = second;
        beatCounts = new Map();
      }
      const beats = (beatCounts.get(session) ?? 1) + 1;
      beatCounts.set(session, beats);
      return beats > maxBeatsPerSecond ? delayMs : 0;
    },
    figures: () => ({ delayed: delayedTotal, limited }),
  };
}
