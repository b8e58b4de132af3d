/** Types of the services that handlers get, and of the data that the API keeps about a request. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AgentBundleFiles } from '../base/files/agent-bundle.ts';
import type { CorrelationId, KnownIds } from '../base/ids.ts';
import type { TrustedProxies } from '../base/network/trusted-proxies.ts';
import type { Latencies } from '../base/telemetry/latencies.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { Tracer } from '../base/telemetry/trace.ts';
import type { ProtocolOperation } from '../contract/compat/routes.ts';
import type { ReadinessCheck } from '../contract/fleet/overview.ts';
import type { OperatorsMay } from '../contract/pool-fields/privileged.ts';
import type { BodyOf, ParamsOf, QueryOf, ReplyOf } from '../contract/route.ts';
import type { OperationName, Routes } from '../contract/routes.ts';
import type { FleetLoad } from '../lifecycle/deadlines/pace.ts';
import type { OperationServices } from '../operations/runtime/services.ts';
import type { AgentSession, AgentSessions } from '../store/agents/sessions/agent-sessions.ts';
import type { RestorationWatch } from '../store/backup/restoration-watch.ts';
import type { EvidenceTail } from '../store/evidence/tail.ts';
import type { HeartbeatBuffer } from '../store/heartbeats/heartbeat-buffer.ts';
import type { LogWriter } from '../store/logs/log-writer.ts';
import type { DatabaseFacts } from '../store/rows/database-facts.ts';
import type { TokenUses } from '../store/rows/sign-in/token-uses.ts';
import type { AgentStreams } from './agent-stream/streams.ts';
import type { ReportRefusedBeat } from './heartbeats/refused-beats.ts';
import type { Person, Relay } from './http/callers.ts';
import type { CredentialAge } from './http/credential-age.ts';
import type { Connections } from './limits/held/connections.ts';
import type { Places } from './limits/held/places.ts';
import type { Overload } from './limits/overload/overload.ts';
import type { DeferredReports } from './limits/quotas/deferred-reports.ts';
import type { RequestRates } from './limits/quotas/request-rates.ts';
import type { WriteLimits } from './limits/quotas/write-limits.ts';
import type { LogArrivals } from './logs/log-arrivals.ts';
import type { LogIntake } from './logs/log-intake.ts';
import type { MetricsSelection, SweepFigures } from './metrics.ts';
import type { FailureThrottle } from './sign-in/failure-throttle.ts';
import type { Scrapers } from './sign-in/scrapers.ts';
import type { LogLevelControl } from './status/log-level.ts';
import type { ServerWatch } from './status/server-watch.ts';
import type { LiveFeed } from './stream/live-feed.ts';
import type { LongPolls } from './stream/long-polls.ts';

export interface ApiSettings {
  version: string;
  /** Serve only the names of this host, such as localhost. Others may be a DNS rebinding attack. */
  loopback_only: boolean;
  /** The proxies whose X-Forwarded-* headers are trusted. */
  proxies: TrustedProxies;
  allow_host_bound_pools: boolean;
  /** Privileged fields of pools that operators may set, and to which values. */
  operators_may: OperatorsMay;
  secure_cookies: boolean;
  session_idle_seconds: number;
  session_max_seconds: number;
  console_dir: string | null;
  agent_bundle: AgentBundleFiles;
  /** The start settings, without secrets. */
  started_with: Record<string, unknown>;
  /** The source of each setting in `started_with`. */
  sources: Record<string, string>;
}

export interface ApiServices extends OperationServices {
  log: Log;
  settings: ApiSettings;
  sessions: AgentSessions;
  tokenFailures: FailureThrottle;
  tokenUses: Pick<TokenUses, 'note'>;
  scrapers: Scrapers;
  beats: HeartbeatBuffer;
  overload: Overload;
  /** Limits the evidence that callers cause. */
  writeLimits: WriteLimits;
  deferred: DeferredReports;
  rates: RequestRates;
  /** Returns figures that may be a few seconds old, so that a heartbeat costs no query. */
  fleetLoad(): FleetLoad;
  tail: EvidenceTail;
  feed: LiveFeed;
  longPolls: LongPolls;
  latencies: Pick<Latencies, 'observeCall'>;
  /** Limits on the connections and long calls that people hold open on this replica. */
  places: Record<'streams' | 'log_follows' | 'catch_ups' | 'log_searches', Places>;
  connections: Connections;
  /** Null if no collector is configured. */
  tracer: Tracer | null;
  arrivals: LogArrivals;
  agentStreams: AgentStreams;
  reportRefusedBeat: ReportRefusedBeat;
  credential_age: CredentialAge;
  logs: LogWriter;
  intake: LogIntake;
  restoration: RestorationWatch;
  readiness(): Promise<Record<string, ReadinessCheck>>;
  /** Whether this replica got SIGTERM and answers `/readyz` with 503. */
  isDraining(): boolean;
  /** The last runs of this replica's sweeps. */
  sweeps(): SweepFigures[];
  serverWatch: Pick<ServerWatch, 'look'>;
  logLevel: Pick<LogLevelControl, 'state'>;
  databaseFacts(): Promise<DatabaseFacts>;
  /** The connections of this replica to its database, and how many it may have. */
  ownConnections(): { used: number; limit: number };
  metrics(selection: MetricsSelection): Promise<string>;
}

export interface Call<Name extends OperationName> {
  params: ParamsOf<Routes[Name]>;
  query: QueryOf<Routes[Name]>;
  body: BodyOf<Routes[Name]>;
  correlation_id: CorrelationId;
  /** Set on every route that requires a person; throws elsewhere. */
  person(): Person;
  /** Set on every route that requires an instance credential; throws elsewhere. */
  agent(): AgentSession;
  request: FastifyRequest;
  reply: FastifyReply;
}

export type Handler<Name extends OperationName> = (
  call: Call<Name>,
  services: ApiServices,
) => Promise<ReplyOf<Routes[Name]> | undefined>;
export type Handlers = { [Name in OperationName]: Handler<Name> };

declare module 'fastify' {
  interface FastifyRequest {
    correlation_id: CorrelationId;
    operation: OperationName | ProtocolOperation | null;
    person: Person | null;
    agent_session: AgentSession | null;
    relay: Relay | null;
    /** The ids of the resources that the request concerned, as far as they are known. */
    touched: KnownIds;
    span_id: string;
  }
}
