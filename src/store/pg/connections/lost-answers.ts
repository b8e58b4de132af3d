/**
 * Finds connections that wait for a reply that will never come, because a firewall or a proxy
 * dropped the request or the reply without closing the connection. A fresh connection reads the
 * state of the session. An active session is only slow; an idle one has lost its statement or its
 * reply, so the connection is closed and its caller gets an error. If the URL lists several servers
 * and the server of the connection no longer qualifies, all connections to it are closed.
 */
import pg from 'pg';
import type { Clock } from '../../../base/clock.ts';
import { parseDatabaseUrl } from '../../../base/network/database-url.ts';
import { needsSearch } from './failover-client.ts';
import { findServer } from './find-server.ts';

/** A connection in the state of the watch's last check. */
export interface WatchedConnection {
  /** A probe connects with the same configuration. */
  config: pg.ClientConfig;
  /** Host and port. */
  server(): string;
  isWaiting: boolean;
  /** Since when the connection waits without reading a byte. */
  since_ms: number;
  /** Bytes sent since the connection last read a byte. */
  unread_bytes: number;
  pid(): number | null;
  drop(error: Error): void;
}

export interface LostAnswers {
  inspect(waiting: WatchedConnection[]): void;
  stop(): void;
}

/** A probe costs a connection, and most statements end long before this time. */
const suspectAfterMs = 2_500;
/** On a slow link, the session stays idle until a large statement has arrived. */
const slowestBytesPerMs = 4;
const probeEveryMs = 1_000;
/** These are connections besides those of the pools. */
export const maxProbes = 2;
const probeTimeoutMs = 15_000;
/** One probe is enough after a silence this many times longer than the wait should take. */
const certainFactor = 3;

interface Session {
  pid: number;
  state: string | null;
}

/** The server that connections should use now is not the one that they use. */
const moved = 'moved';

interface ProbeResult {
  /** False behind a pooler, which hides the session ids of PostgreSQL. */
  isDirect: boolean;
  sessions: Map<number, string | null>;
}

const selectOwnSession = 'select pg_backend_pid() as pid, null as state';
const selectSessions = 'select pid, state from pg_stat_activity where pid = any($1::int[])';

const lostAnswerError = () =>
  Object.assign(new Error('lost reply: the database session is idle, but this connection still waits'), {
    code: 'ETIMEDOUT',
  });

/** Returns the URL to probe. Prefers the server in use, so that it is left only if it is unfit. */
async function findProbeUrl(config: pg.ClientConfig, used: string): Promise<string | undefined | typeof moved> {
  const address = parseDatabaseUrl(config.connectionString ?? '');
  if (!needsSearch(address)) return config.connectionString;
  const preferred = address.urls.find((url) => formatServer(new pg.Client({ connectionString: url })) === used);
  const server = await findServer(config, address, preferred);
  return formatServer(server) === used ? server.url : moved;
}

export const formatServer = ({ host, port }: { host: string; port: number }): string => `${host}:${port}`;

/** A pooler refuses settings at login, and a probe needs none. */
const withoutSettings = ({ idle_in_transaction_session_timeout: _, ...config }: pg.ClientConfig): pg.ClientConfig =>
  config;

async function probe(config: pg.ClientConfig, used: string, pids: number[]): Promise<ProbeResult | typeof moved> {
  const connectionString = await findProbeUrl(config, used);
  if (connectionString === moved) return moved;
  const client = new pg.Client({
    ...config,
    connectionString,
    application_name: 'slipway probe',
    connectionTimeoutMillis: probeTimeoutMs,
    query_timeout: probeTimeoutMs,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows: own } = await client.query<Session>(selectOwnSession);
    const { rows } = await client.query<Session>(selectSessions, [pids]);
    const isDirect = own[0]?.pid === (client as unknown as { processID: number | null }).processID;
    return { isDirect, sessions: new Map(rows.map(({ pid, state }) => [pid, state])) };
  } finally {
    client.end().catch(() => {});
  }
}

export function createLostAnswers(options: {
  clock: Clock;
  connections: Iterable<WatchedConnection>;
  onLost?(count: number): void;
}): LostAnswers {
  const { clock, connections, onLost } = options;
  /** Connections whose session an earlier probe found idle, with the start of that wait. */
  const suspected = new WeakMap<WatchedConnection, number>();
  /** When a connection was last part of a probe. */
  const examinedMs = new WeakMap<WatchedConnection, number>();
  let probes = 0;
  let probedMs = Number.NEGATIVE_INFINITY;
  let isStopped = false;

  const patienceMs = ({ unread_bytes }: WatchedConnection) => suspectAfterMs + unread_bytes / slowestBytesPerMs;

  const isLost = (
    each: WatchedConnection,
    startedMs: number,
    tookMs: number,
    { isDirect, sessions }: ProbeResult,
  ): boolean => {
    const silentMs = clock.monotonicMs() - each.since_ms;
    const neededMs = patienceMs(each) + 2 * tookMs;
    if (!each.isWaiting || each.since_ms > startedMs || silentMs < neededMs) return false;
    const pid = each.pid();
    // This connection is still connecting, but the probe, which started later, has connected.
    if (pid === null) return true;
    if (!isDirect) return false;
    // The state is null for sessions of another role, which may be active.
    const state = sessions.has(pid) ? sessions.get(pid) : 'gone';
    if (state === 'active' || state === null || state?.startsWith('fastpath')) return false;
    const isConfirmed = suspected.get(each) === each.since_ms;
    suspected.set(each, each.since_ms);
    return isConfirmed || silentMs > certainFactor * neededMs;
  };

  const drop = (lost: WatchedConnection[]) => {
    for (const each of lost) each.drop(lostAnswerError());
    if (lost.length > 0) onLost?.(lost.length);
  };

  const examine = async (config: pg.ClientConfig, server: string, suspects: WatchedConnection[]) => {
    const startedMs = clock.monotonicMs();
    for (const each of suspects) examinedMs.set(each, startedMs);
    probes++;
    try {
      const pids = suspects.map((each) => each.pid()).filter((pid) => pid !== null);
      const probed = await probe(withoutSettings(config), server, pids);
      if (isStopped) return;
      if (probed === moved) return drop([...connections].filter((each) => each.server() === server));
      drop(suspects.filter((each) => isLost(each, startedMs, clock.monotonicMs() - startedMs, probed)));
    } catch {
      // The store is away. The callers get an error from their own connections or a later probe.
    } finally {
      probes--;
    }
  };

  /** Each role needs its own probe, because PostgreSQL hides the sessions of other roles. */
  const groupSuspects = (suspects: WatchedConnection[]) =>
    [...Map.groupBy(suspects, (each) => each.config)].flatMap(([config, sameRole]) =>
      [...Map.groupBy(sameRole, (each) => each.server())].map(([server, group]) => ({ config, server, group })),
    );
  const lastExaminedMs = (group: WatchedConnection[]) =>
    group.reduce((latest, each) => Math.max(latest, examinedMs.get(each) ?? 0), 0);

  return {
    inspect(waiting) {
      const nowMs = clock.monotonicMs();
      if (nowMs - probedMs < probeEveryMs || probes >= maxProbes) return;
      const suspects = waiting.filter((each) => nowMs - each.since_ms > patienceMs(each));
      if (suspects.length === 0) return;
      probedMs = nowMs;
      // Groups that were probed longest ago go first, so that slow statements starve no group.
      const groups = groupSuspects(suspects).toSorted((a, b) => lastExaminedMs(a.group) - lastExaminedMs(b.group));
      for (const { config, server, group } of groups.slice(0, maxProbes - probes)) void examine(config, server, group);
    },
    stop() {
      isStopped = true;
    },
  };
}
