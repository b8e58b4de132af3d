/**
 * Limits how often one caller may call. A caller over its rate gets 429; one that is refused too
 * often is answered late, which slows a flood without refusing others at the same address.
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

/** Where a batch of heartbeats came from. */
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
   * As `admit`, for a caller that its body identifies. With `request`, its reply is charged as
   * well.
   */
  admitKnown(kind: Kind, key: string, name: OperationName | ProtocolOperation, request?: FastifyRequest): void;
  /**
   * Begins the look-up of credentials that this replica does not know. Call the result with the
   * number that turned out unknown. Undefined for a source that showed too many of those.
   */
  beginLookup(source: LookupSource, credentials: number): ((unknown: number) => void) | undefined;
  /**
   * Replaces the estimate for a page by the size of the reply: a long reply costs as much as many
   * short ones.
   */
  chargeReply(request: FastifyRequest, bytes: number): void;
  /** Charges a page that a request read besides its reply. */
  chargePage(request: FastifyRequest, items: number): void;
  /** Delays a refusal to a caller that was refused too often. */
  holdRefusal(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Delay before a heartbeat is answered: 0 unless the machine sends many per second. */
  beatHoldMs(session: AgentSession, nowMs: number): number;
  figures(): { held: number; limited: number };
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
/** The requested page length; 0 if the reply is no page. A wrong limit is refused later. */
function pageItems({ query }: FastifyRequest, route: RouteDeclaration): number {
  if (!Object.hasOwn((route.query as { properties?: object } | undefined)?.properties ?? {}, 'limit')) return 0;
  const limit = Number((query as { limit?: string }).limit);
  return limit > 0 ? Math.min(limit, maxPageItems) : defaultPageSize;
}
/** Counted separately from the caller's other requests. */
const ownRates: Partial<Record<OperationName, Kind>> = { 'agent-credential-rotate': 'rotation' };
/** For the message, if the kind is no name for the caller. */
const callersOf: Partial<Record<Kind, string>> = { instance: 'machine', sign_in: 'token', join_token: 'join token' };
const maxRetrySeconds = 60;
const holdMs = 1_000;
const maxHeldPerCaller = 128;
const maxHeld = 4_000;
/** No agent sends that many; tests send twenty. */
const maxBeatsPerSecond = 50;

/** A quota in rows only. */
const quotaOf = ({ burst, per_second }: RequestRate) => ({
  ...{ rows: burst, rows_per_second: per_second, bytes: 1, bytes_per_second: 1 },
});

export function createRequestRates(clock: Clock, limits: RateSettings): RequestRates {
  const accounts = createAccounts(clock);
  const quotas = Object.fromEntries(requestKinds.map((kind) => [kind, quotaOf(limits[kind])])) as Record<
    Kind,
    ReturnType<typeof quotaOf>
  >;
  const held = new Map<string, number>();
  let heldTotal = 0;
  let limited = 0;
  let beatsOf = new Map<AgentSession, number>();
  let second = 0;

  /**
   * The charges before a request is served. Addresses are left out: several callers may share one.
   */
  const charged = new WeakMap<FastifyRequest, { key: string; kind: Kind; requests: number; isPage: boolean }>();

  /** Undefined for fleet-wide tokens, which run the fleet and are not limited. */
  const callerOf = (request: FastifyRequest): { kind: Kind; key: string } | undefined => {
    const { agent_session, person, relay } = request;
    if (agent_session) return { kind: 'instance', key: agent_session.node_instance_id };
    const visibility = person?.visibility;
    if (visibility) return visibility.kind === 'fleet' ? undefined : { kind: 'tenant', key: visibility.tenant };
    return relay ? undefined : { kind: 'address', key: sourceNetwork(request) };
  };
  /** Seconds to wait; 0: the caller was charged. */
  const waitSeconds = (key: string, quota: ReturnType<typeof quotaOf>, requests = 1): number => {
    const seconds = accounts.waitSeconds(key, quota);
    if (seconds === 0) accounts.charge(key, quota, requests, 0);
    return seconds;
  };
  /** Charges one request; false without allowance. */
  const take = (key: string, quota: ReturnType<typeof quotaOf>): boolean => waitSeconds(key, quota) === 0;

  const refuse = (name: OperationName | ProtocolOperation, kind: Kind, seconds: number): never => {
    limited++;
    throw new ApiProblem('rate_limited', {
      detail: `This ${callersOf[kind] ?? kind} calls ${name} too often.`,
      retry_after_seconds: Math.min(Math.ceil(seconds), maxRetrySeconds),
    });
  };

  return {
    admitKnown(kind, caller, name, request) {
      const key = `${kind} ${caller}`;
      const requests = callCosts[name] ?? 1;
      const seconds = waitSeconds(key, quotas[kind], requests);
      if (seconds > 0) refuse(name, kind, seconds);
      if (request) charged.set(request, { key, kind, requests, isPage: false });
    },
    beginLookup({ kind, id }, credentials) {
      const key = `unknown_credential ${kind} ${id}`;
      const quota = quotas.unknown_credential;
      if (accounts.waitSeconds(key, quota) > 0) return undefined;
      // After a restart of this replica, a relay brings many machines at once that have to be
      // looked up.
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
      const items = pageItems(request, route);
      const requests = callCosts[name] ?? requestsOf(items * usualItemBytes);
      const seconds = waitSeconds(key, quotas[kind], requests);
      if (seconds > 0) refuse(name, caller.kind, seconds);
      if (caller.kind !== 'address') charged.set(request, { key, kind, requests, isPage: items > 0 });
    },
    chargeReply(request, bytes) {
      const before = charged.get(request);
      if (!before) return;
      charged.delete(request);
      const more = requestsOf(bytes) - before.requests;
      if (more > 0 || before.isPage) accounts.charge(before.key, quotas[before.kind], more, 0);
    },
    chargePage(request, items) {
      const before = charged.get(request);
      if (before) accounts.charge(before.key, quotas[before.kind], requestsOf(items * usualItemBytes), 0);
    },
    async holdRefusal(request, reply) {
      const caller = callerOf(request);
      if (!caller) return;
      const key = `${caller.kind} ${caller.key}`;
      if (take(`refused ${key}`, quotas.refused)) return;
      const ofCaller = held.get(key) ?? 0;
      if (ofCaller >= maxHeldPerCaller || heldTotal >= maxHeld) {
        reply.header('connection', 'close');
        return;
      }
      held.set(key, ofCaller + 1);
      heldTotal++;
      // Random delay: refusals sent together cause requests that arrive together.
      await pause(clock, holdMs * (1 + Math.random()));
      heldTotal--;
      const left = (held.get(key) ?? 1) - 1;
      if (left > 0) held.set(key, left);
      else held.delete(key);
    },
    beatHoldMs(session, nowMs) {
      const present = Math.ceil(nowMs / 1000);
      // Nearly every heartbeat ends here: the last answer was in an earlier second.
      if (session.assigned_at_seconds !== present) return 0;
      if (second !== present) {
        second = present;
        beatsOf = new Map();
      }
      const beats = (beatsOf.get(session) ?? 1) + 1;
      beatsOf.set(session, beats);
      return beats > maxBeatsPerSecond ? holdMs : 0;
    },
    figures: () => ({ held: heldTotal, limited }),
  };
}
