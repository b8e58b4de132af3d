/**
 * Renders Prometheus metrics. Labels have a limited number of values. The figures of this replica
 * are also rendered while the database is away, so that an alert can fire.
 */
import { collectDefaultMetrics, Gauge, type Histogram, Registry } from 'prom-client';
import type { Clock } from '../base/clock.ts';
import type { ForwardFigures } from '../base/telemetry/log-forwarder.ts';
import { databaseStates, type ReadinessCheck } from '../contract/fleet/overview.ts';
import type { Queryable } from '../store/pg/database.ts';
import { createFleetMetrics } from './fleet-metrics.ts';
import type { ConnectionFigures } from './limits/held/connections.ts';
import type { OverloadFigures } from './limits/overload/overload.ts';
import type { WriteLimitFigures } from './limits/quotas/write-limits.ts';
import type { IntakeFigures } from './logs/log-intake.ts';
import type { FeedFigures } from './stream/live-feed.ts';

export interface SweepFigures {
  name: string;
  every_seconds: number;
  runs: number;
  decided: number;
  held: number;
  would_have: number;
  last_run_at: Date | null;
  last_seconds: number | null;
  lateness_seconds: number | null;
  waiting: boolean;
  error: string | null;
  failed_at: Date | null;
}

/** The metrics of this replica alone, or those of the fleet too. */
export type MetricsSelection = 'replica' | 'all';

/** The figures of this replica. */
export interface ReplicaFigures {
  version: string;
  sweeps(): SweepFigures[];
  intake(): IntakeFigures;
  forwarders(): ForwardFigures[];
  streams(): FeedFigures;
  agentStreams(): { agents: number; relays: number };
  overload(): OverloadFigures;
  /** The age of the oldest heartbeat that is not stored. */
  unstoredBeatsMs(): number;
  writeLimits(): WriteLimitFigures;
  connections(): ConnectionFigures;
  database(): Promise<ReadinessCheck>;
  latencies: readonly Histogram[];
  /** By application name. */
  databaseConnections(): Map<string, { open: number; busy: number }>;
  waitingForConnection(): number;
  tailLagMs(): number;
  /** Of the disk of the data directory; null if it cannot be read. */
  diskFreeBytes(): Promise<number | null>;
  /** Null without scheduled backups. */
  backups: { every_seconds: number; ageSeconds(): number } | null;
}

export function createMetrics(
  db: Queryable,
  clock: Clock,
  replicaFigures: ReplicaFigures,
): (selection: MetricsSelection) => Promise<string> {
  const registry = new Registry();
  // Its own registry, because a scrape of this replica alone may run at the same time as others.
  const fleetRegistry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const each of replicaFigures.latencies) registry.registerMetric(each);
  const createGaugeIn = (target: Registry) => (name: string, help: string, labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [target] });
  const gauge = createGaugeIn(registry);
  const databaseState = gauge('slipway_database_state', '1 for the present state of the database', ['state']);
  const fleet = createFleetMetrics(db, clock, createGaugeIn(fleetRegistry));
  const fillDatabase = async (selection: MetricsSelection) => {
    const { state } = await replicaFigures.database();
    if (state === 'unavailable') fleet.clear();
    const outcome = state === 'unavailable' || selection === 'replica' ? state : await fleet.read();
    for (const each of databaseStates) databaseState.set({ state: each }, 0);
    databaseState.set({ state: outcome === 'read' ? state : outcome }, 1);
  };
  const { version } = replicaFigures;
  gauge('slipway_build_info', '1, with the versions of this replica', ['version', 'node']).set(
    { version, node: process.version },
    1,
  );
  const databaseConnections = gauge(
    'slipway_database_connections',
    'Open connections to the database, and those that wait for a reply',
    ['of', 'state'],
  );
  const waitingForConnection = gauge(
    'slipway_database_waiting',
    'Statements that wait for a connection of the pool',
    [],
  );
  const tailLag = gauge('slipway_tail_lag_seconds', 'Time since this replica last had every committed fact', []);
  const fillConnectionsToDatabase = () => {
    databaseConnections.reset();
    for (const [of, { open, busy }] of replicaFigures.databaseConnections()) {
      databaseConnections.set({ of, state: 'open' }, open);
      databaseConnections.set({ of, state: 'busy' }, busy);
    }
    waitingForConnection.set(replicaFigures.waitingForConnection());
    tailLag.set(replicaFigures.tailLagMs() / 1000);
  };
  const sweepRuns = gauge('slipway_sweep_runs_total', 'Runs of each sweep on this replica', ['sweep']);
  const sweepDecided = gauge('slipway_sweep_decided_total', 'Decisions of each sweep on this replica', ['sweep']);
  const sweepHeld = gauge('slipway_sweep_held_total', 'Verdicts held back, by rule', ['sweep']);
  const sweepWouldHave = gauge('slipway_sweep_would_have_total', 'Verdicts only recorded, for observe-only pools', [
    'sweep',
  ]);
  const sweepLateness = gauge('slipway_sweep_lateness_seconds', 'Delay of the last verdicts of each rule', ['sweep']);
  const sweepFailing = gauge('slipway_sweep_failing', '1 if the last run of the sweep failed', ['sweep']);
  const diskFree = gauge('slipway_disk_free_bytes', 'Free bytes on the disk of the data directory', []);
  const { backups } = replicaFigures;
  if (backups) {
    gauge('slipway_backup_every_seconds', 'Time between two scheduled backups', []).set(backups.every_seconds);
  }
  const backupAge = backups && gauge('slipway_backup_age_seconds', 'Age of the newest scheduled backup', []);
  const sweepSeconds = gauge('slipway_sweep_last_seconds', 'Duration of the last run of each sweep', ['sweep']);

  const agentStreams = gauge('slipway_agent_streams', 'Open streams of agents and relays on this replica', ['of']);
  const connections = gauge('slipway_connections', 'Open connections to this replica', []);
  const connectionsClosed = gauge('slipway_connections_closed_total', 'Connections closed by the connection limits', [
    'reason',
  ]);
  const fillConnections = ({ open, closed_unknown, closed_idle, refused }: ConnectionFigures) => {
    connections.set(open);
    const byReason = { no_credential: closed_unknown, idle: closed_idle, limit: refused };
    for (const [reason, count] of Object.entries(byReason)) connectionsClosed.set({ reason }, count);
  };
  const beatsAccepted = gauge('slipway_beats_total', 'Heartbeats accepted by this replica', []);
  const beatsRate = gauge('slipway_beats_per_second', 'Heartbeats per second on this replica', []);
  const beatsBehind = gauge(
    'slipway_beats_behind_seconds',
    'Age of the oldest heartbeat that is not stored; 0 if all are',
    [],
  );
  const loopLag = gauge('slipway_loop_lag_seconds', 'Event loop lag of this replica', []);
  const shed = gauge(
    'slipway_shed_total',
    'Heartbeats and reads shed in an overload, and new work refused in a shortage',
    ['what'],
  );
  const stretch = gauge('slipway_interval_stretch', 'Factor on heartbeat intervals in an overload; 1 is normal', []);
  const limited = gauge('slipway_limited_total', 'Writes dropped, refused or coalesced by the write limits', [
    'of',
    'what',
  ]);
  const limitedAccounts = gauge('slipway_limit_accounts', 'Callers with a counted write allowance', []);
  const fillLimits = ({ accounts, losses }: WriteLimitFigures) => {
    limitedAccounts.set(accounts);
    for (const [of, counts] of losses)
      for (const [what, count] of Object.entries(counts)) limited.set({ of, what }, count);
  };
  const fillOverload = () => {
    const figures = replicaFigures.overload();
    beatsAccepted.set(figures.beats);
    beatsRate.set(figures.beats_per_second);
    beatsBehind.set(replicaFigures.unstoredBeatsMs() / 1000);
    loopLag.set(figures.loop_lag_ms / 1000);
    shed.set({ what: 'beats' }, figures.beats_shed);
    shed.set({ what: 'reads' }, figures.reads_shed);
    shed.set({ what: 'work' }, figures.work_refused);
    stretch.set(figures.shedding.stretch);
  };

  const logsHeld = gauge('slipway_logs_held_bytes', 'Bytes of log lines waiting to be stored', []);
  const logsRefused = gauge('slipway_logs_slowed_total', 'Log batches refused with a retry time', []);
  const receivers = ['receiver'];
  const forwarded = gauge('slipway_logs_forwarded_lines_total', 'Log lines forwarded to a receiver', receivers);
  const forwardDropped = gauge(
    'slipway_logs_forward_dropped_lines_total',
    'Log lines dropped before a receiver took them',
    receivers,
  );
  const forwardWaiting = gauge('slipway_logs_forward_waiting_lines', 'Log lines waiting to be forwarded', receivers);

  const streamReaders = gauge('slipway_stream_readers', 'Readers of the event stream on this replica', []);
  const streamFilters = gauge('slipway_stream_questions', 'Distinct filters of the stream readers', []);
  const streamDropped = gauge(
    'slipway_stream_dropped_total',
    'Stream readers dropped because they did not keep up',
    [],
  );
  const streamFacts = gauge('slipway_stream_facts_total', 'Facts sent to stream readers', []);
  const streamBatches = gauge('slipway_stream_batches_total', 'Batches of facts sent to stream readers', []);
  const streamBytes = gauge('slipway_stream_bytes_total', 'Bytes sent to stream readers', []);
  const streamSeconds = gauge('slipway_stream_seconds_total', 'Time spent on the stream, by part', ['part']);

  const fillStreams = (streams: FeedFigures) => {
    streamReaders.set(streams.readers);
    streamFilters.set(streams.filters);
    streamDropped.set(streams.dropped);
    streamFacts.set(streams.facts);
    streamBatches.set(streams.batches);
    streamBytes.set(streams.bytes);
    for (const part of ['tail', 'gather', 'join', 'render', 'write'] as const)
      streamSeconds.set({ part }, streams[`${part}_seconds`]);
  };

  return async (selection) => {
    await fillDatabase(selection);
    fillConnectionsToDatabase();
    const freeBytes = await replicaFigures.diskFreeBytes();
    if (freeBytes === null) diskFree.reset();
    else diskFree.set(freeBytes);
    if (backups) backupAge?.set(backups.ageSeconds());
    fillStreams(replicaFigures.streams());
    const { agents, relays } = replicaFigures.agentStreams();
    agentStreams.set({ of: 'agent' }, agents);
    agentStreams.set({ of: 'relay' }, relays);
    fillOverload();
    fillLimits(replicaFigures.writeLimits());
    fillConnections(replicaFigures.connections());
    const { held_bytes, refused } = replicaFigures.intake();
    logsHeld.set(held_bytes);
    logsRefused.set(refused);
    for (const { receiver, sent, dropped, waiting } of replicaFigures.forwarders()) {
      forwarded.set({ receiver }, sent);
      forwardDropped.set({ receiver }, dropped);
      forwardWaiting.set({ receiver }, waiting);
    }
    for (const sweep of replicaFigures.sweeps()) {
      sweepRuns.set({ sweep: sweep.name }, sweep.runs);
      sweepDecided.set({ sweep: sweep.name }, sweep.decided);
      sweepSeconds.set({ sweep: sweep.name }, sweep.last_seconds ?? 0);
      sweepHeld.set({ sweep: sweep.name }, sweep.held);
      sweepWouldHave.set({ sweep: sweep.name }, sweep.would_have);
      sweepLateness.set({ sweep: sweep.name }, sweep.lateness_seconds ?? 0);
      sweepFailing.set({ sweep: sweep.name }, sweep.error === null ? 0 : 1);
    }
    const registries = selection === 'all' ? [registry, fleetRegistry] : [registry];
    const texts = await Promise.all(registries.map((each) => each.metrics()));
    return texts.join('').replace(counterTypes, '$1 counter');
  };
}

/**
 * Totals are counted elsewhere and copied here. prom-client can set the value of a gauge only, so
 * the type is corrected in the output.
 */
const counterTypes = /^(# TYPE \S+_total) gauge$/gm;
