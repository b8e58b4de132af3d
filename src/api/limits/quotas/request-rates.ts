/**
 * How often one caller may ask, so that a flood takes no more than its share. A caller over its rate gets 429; and whoever
 * is refused too often is answered late, which slows a flood down without refusing anybody who shares its address.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, pause } from '../../../base/clock.ts';
import type { ProtocolOperation } from '../../../contract/compat/routes.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { maxPageItems } from '../../../contract/primitives.ts';
import type { RouteDeclaration } from '../../../contract/route.ts';
import type { OperationName } from '../../../contract/routes.ts';
import { type RateSettings, type RequestRate, requestKinds } from '../../../lifecycle/limits/limits.ts';
import type { AgentSession } from '../../../store/agents/agent-sessions.ts';
import { defaultPageSize } from '../../../store/pg/walk.ts';
import { sourceNetwork } from '../../http/source-address.ts';
import { createAccounts } from './accounts.ts';

type Kind = (typeof requestKinds)[number];

/** Where a batch of beats came from. */
export interface LookupSource {
  kind: 'address' | 'relay';
  id: string;
}

export interface RequestRates {
  /** Throws 429 for a caller over its rate. Callers without a credential are limited only where none is needed. */
  admit(request: FastifyRequest, name: OperationName, route: RouteDeclaration): void;
  /** As `admit`, for a caller that is known by what its body holds. With `request`, its reply counts as well. */
  admitKnown(kind: Kind, key: string, name: OperationName | ProtocolOperation, request?: FastifyRequest): void;
  /**
   * Begins the look-up of credentials that this replica does not know. The result is called with the number that no machine
   * has. Undefined for a source that has shown too many of those.
   */
  beginLookup(source: LookupSource, credentials: number): ((unknown: number) => void) | undefined;
  /** Replaces the estimate of a page by the size of the reply: a long one takes as much time as many short ones. */
  chargeReply(request: FastifyRequest, bytes: number): void;
  /** Charges a page that a request has read besides its reply. */
  chargePage(request: FastifyRequest, items: number): void;
  /** Waits before a refusal is sent, for a caller that was refused too often. */
  holdRefusal(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** How long to wait before a beat is answered: 0 but for a machine that beats many times a second. */
  beatHoldMs(session: AgentSession, nowMs: number): number;
  figures(): { held: number; limited: number };
}

const healthChecks: readonly OperationName[] = ['health-get', 'readiness-get'];
/** A reply of this size takes the server about as long as a request does by itself. */
const bytesPerRequest = 16 * 1024;
const usualItemBytes = 1536;
/** What counts as several requests: a whole operation when it is asked for, and what is long to compute or to list. */
const callCosts: Partial<Record<OperationName | ProtocolOperation, number>> = {
  'allocation-create': 5,
  'allocation-release': 5,
  'allocation-retry': 5,
  'allocation-certificate': 20,
  'agentfield-node-list': 20,
};
const requestsOf = (bytes: number) => Math.max(1, Math.ceil(bytes / bytesPerRequest));
/** How long a page was asked for; 0 where the reply is no page. A wrong limit is refused later. */
function pageItems({ query }: FastifyRequest, route: RouteDeclaration): number {
  if (!Object.hasOwn((route.query as { properties?: object } | undefined)?.properties ?? {}, 'limit')) return 0;
  const limit = Number((query as { limit?: string }).limit);
  return limit > 0 ? Math.min(limit, maxPageItems) : defaultPageSize;
}
/** Counted apart from the caller's other requests. */
const ownRates: Partial<Record<OperationName, Kind>> = { 'agent-credential-rotate': 'rotation' };
/** In the message, where the kind does not name the caller. */
const callersOf: Partial<Record<Kind, string>> = { instance: 'machine', sign_in: 'token', join_token: 'join token' };
const maxRetrySeconds = 60;
const holdMs = 1_000;
const maxHeldOfOne = 128;
const maxHeld = 4_000;
/** No agent beats so often; tests come to twenty. */
const maxBeatsPerSecond = 50;

/** An account of rows alone. */
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
  let heldInAll = 0;
  let limited = 0;
  let beatsOf = new Map<AgentSession, number>();
  let second = 0;

  /** What requests were charged before they were served. Those of addresses are not here: several callers share one. */
  const charged = new WeakMap<FastifyRequest, { key: string; kind: Kind; requests: number; isPage: boolean }>();

  /** Undefined for tokens that see all tenants: they run the fleet. */
  const callerOf = (request: FastifyRequest): { kind: Kind; key: string } | undefined => {
    const { agent_session, person, relay } = request;
    if (agent_session) return { kind: 'instance', key: agent_session.node_instance_id };
    const visibility = person?.visibility;
    if (visibility) return visibility.kind === 'fleet' ? undefined : { kind: 'tenant', key: visibility.tenant };
    return relay ? undefined : { kind: 'address', key: sourceNetwork(request) };
  };
  /** How long the caller has to wait; 0: it was charged. */
  const waitSeconds = (key: string, quota: ReturnType<typeof quotaOf>, requests = 1): number => {
    const seconds = accounts.waitSeconds(key, quota);
    if (seconds === 0) accounts.charge(key, quota, requests, 0);
    return seconds;
  };
  /** Charges one request, and says whether there was allowance for it. */
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
      // A relay is known: after a restart of this replica it brings many machines at once that have to be looked up.
      const reserved = kind === 'relay' ? 0 : credentials;
      accounts.reserve(key, quota, reserved, 0);
      return (unknown) => {
        accounts.release(key, reserved, 0);
        if (unknown > 0) accounts.charge(key, quota, unknown, 0);
      };
    },
    admit(request, name, route) {
      // Log lines have a limit of their own, in bytes. Health checks share their address with whoever is behind it.
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
      if (ofCaller >= maxHeldOfOne || heldInAll >= maxHeld) {
        reply.header('connection', 'close');
        return;
      }
      held.set(key, ofCaller + 1);
      heldInAll++;
      // Spread: refusals that are sent together are followed by requests that come together.
      await pause(clock, holdMs * (1 + Math.random()));
      heldInAll--;
      const left = (held.get(key) ?? 1) - 1;
      if (left > 0) held.set(key, left);
      else held.delete(key);
    },
    beatHoldMs(session, nowMs) {
      const present = Math.ceil(nowMs / 1000);
      // Answered for the last time in an earlier second: nearly every beat ends here.
      if (session.assigned_at_seconds !== present) return 0;
      if (second !== present) {
        second = present;
        beatsOf = new Map();
      }
      const beats = (beatsOf.get(session) ?? 1) + 1;
      beatsOf.set(session, beats);
      return beats > maxBeatsPerSecond ? holdMs : 0;
    },
    figures: () => ({ held: heldInAll, limited }),
  };
}
