/**
 * The metric table: every metric of the server and the relay, with its labels. Alerts, dashboards
 * and docs/reference/metrics.md are generated from it, and a test compares it with `/metrics`.
 */
import { databaseStates } from '../../src/contract/fleet/overview.ts';
import { findingKinds } from '../../src/lifecycle/findings/findings.ts';
import { allocationStatusNames, nodeStatusNames, operationStatuses } from '../../src/lifecycle/model/states.ts';
import { diskUses } from '../../src/store/retention/disk-use.ts';

export interface Metric {
  type: 'gauge' | 'counter' | 'histogram';
  /** The values of each label, or null if they depend on the installation. */
  labels: Record<string, readonly string[] | null>;
  /** Completes the row of the reference page. */
  says: string;
}

const gauge = (says: string, labels: Metric['labels'] = {}): Metric => ({ type: 'gauge', labels, says });
const counter = (says: string, labels: Metric['labels'] = {}): Metric => ({ type: 'counter', labels, says });

const histogram = (says: string, labels: Metric['labels']): Metric => ({ type: 'histogram', labels, says });

const sweep = { sweep: null };
const receiver = { receiver: ['loki', 'otlp'] };
const fenced = { pool: null, status: ['failed', 'draining', 'cleaning', 'quarantined'] };
const parked = { pool: null, status: ['release_failed'] };

/** Read from the database, so every replica reports the same value. */
export const fleetMetrics: Record<string, Metric> = {
  slipway_nodes: gauge('nodes', { status: nodeStatusNames }),
  slipway_allocations: gauge('allocations', { status: allocationStatusNames }),
  slipway_operations: gauge('operations', { status: operationStatuses }),
  slipway_pool_nodes: gauge(
    'nodes of the pool that are not retired (`live`), and those that can be allocated (`free`)',
    {
      pool: null,
      state: ['live', 'free'],
    },
  ),
  slipway_pool_max_nodes: gauge('`max_nodes` of the pools that set it', { pool: null }),
  slipway_nodes_held: gauge('nodes whose verdict is [held back](../explanation/verdicts.md#blame-yourself-first)', {
    rule: null,
    kind: null,
  }),
  slipway_brake_holds: gauge('open holds of the brake', { rule: null }),
  slipway_fenced_nodes: gauge('failed, draining, cleaning or quarantined nodes', fenced),
  slipway_fenced_oldest_seconds: gauge('how long the oldest of them has had its status', fenced),
  slipway_parked_allocations: gauge('releases that failed', parked),
  slipway_parked_oldest_seconds: gauge('age of the oldest of them', parked),
  slipway_findings: gauge('open [findings](../scenarios/machines/22-drift.md)', { kind: findingKinds }),
  slipway_residue_open: gauge('resources upstream without a live owner', { driver: null }),
  slipway_residue_oldest_seconds: gauge('age of the oldest of them', { driver: null }),
  slipway_store_bytes: gauge('bytes of the tables and indexes of each class of [retention](retention.md)', {
    of: diskUses,
  }),
};

/** Its value is 1; a query joins it to show or compare versions. */
const buildInfo = gauge('always 1; the label has the version', { version: null });

export const replicaMetrics: Record<string, Metric> = {
  slipway_database_state: gauge(
    '1 for the present [state](../how-to/replicas.md#the-load-balancer) of the database, as this replica sees it',
    { state: databaseStates },
  ),
  slipway_database_connections: gauge(
    '[connections to the database](../how-to/replicas.md#connections-to-the-database), and those of them that wait for a reply',
    { of: null, state: ['open', 'busy'] },
  ),
  slipway_database_waiting: gauge('statements that wait for a connection'),
  slipway_tail_lag_seconds: gauge(
    'how long ago this replica last had every committed fact; about 1 at most when all is well',
  ),
  slipway_http_request_seconds: histogram('duration of calls, without plain heartbeats, streams and waiting calls', {
    route: null,
  }),
  slipway_operation_seconds: histogram('from the request of an operation to its end, on the replica that ended it', {
    kind: null,
  }),
  slipway_build_info: gauge('always 1', { version: null, node: null }),
  slipway_beats_total: counter('heartbeats received'),
  slipway_beats_per_second: gauge('heartbeats a second, smoothed over some seconds'),
  slipway_beats_behind_seconds: gauge('age of the oldest heartbeat that is not stored; 0 when all are'),
  slipway_loop_lag_seconds: gauge('how late its timers are'),
  slipway_interval_stretch: gauge('factor by which an overload stretches intervals; 1 when all is well'),
  slipway_shed_total: counter('requests deferred in an overload, and new `work` refused in a shortage', {
    what: ['beats', 'reads', 'work'],
  }),
  slipway_limited_total: counter('writes that the [write limits](limits.md) dropped, refused or coalesced', {
    of: null,
    what: null,
  }),
  slipway_limit_accounts: gauge('callers whose write allowance is being counted'),
  slipway_disk_free_bytes: gauge('free bytes on the disk of the data directory, where the embedded database is'),
  slipway_backup_age_seconds: gauge(
    'age of the newest [scheduled backup](../how-to/back-up.md#scheduled-backups); only with `--backup-to`',
  ),
  slipway_backup_every_seconds: gauge('time between two scheduled backups; only with `--backup-to`'),
  slipway_connections: gauge('open connections'),
  slipway_connections_closed_total: counter('closed because [too many were open](limits.md#connections)', {
    reason: ['no_credential', 'idle', 'limit'],
  }),
  slipway_agent_streams: gauge('open streams', { of: ['agent', 'relay'] }),
  slipway_sweep_runs_total: counter('runs of a sweep', sweep),
  slipway_sweep_last_seconds: gauge('duration of its last run', sweep),
  slipway_sweep_failing: gauge('1 when its last run failed', sweep),
  slipway_sweep_decided_total: counter('verdicts it decided', sweep),
  slipway_sweep_held_total: counter('verdicts it held back', sweep),
  slipway_sweep_would_have_total: counter('verdicts it only reported (observe-only pools)', sweep),
  slipway_sweep_lateness_seconds: gauge('how late its last verdicts were', sweep),
  slipway_logs_held_bytes: gauge('log lines being stored'),
  slipway_logs_slowed_total: counter('log batches answered with a retry time'),
  slipway_logs_forwarded_lines_total: counter('log lines that a [receiver](../how-to/logs.md) accepted', receiver),
  slipway_logs_forward_dropped_lines_total: counter('log lines dropped before a receiver accepted them', receiver),
  slipway_logs_forward_waiting_lines: gauge('log lines that wait for a receiver', receiver),
  slipway_stream_readers: gauge('readers of the event stream (console, `slipway watch`)'),
  slipway_stream_questions: gauge('distinct queries among them'),
  slipway_stream_facts_total: counter('facts sent to them'),
  slipway_stream_batches_total: counter('batches sent to them'),
  slipway_stream_bytes_total: counter('bytes sent to them'),
  slipway_stream_dropped_total: counter('readers that did not keep up and were disconnected'),
  slipway_stream_seconds_total: counter('time spent on streaming', {
    part: ['tail', 'gather', 'join', 'render', 'write'],
  }),
};

export const relayMetrics: Record<string, Metric> = {
  slipway_relay_build_info: buildInfo,
  slipway_relay_beats_total: counter('heartbeats that agents sent'),
  slipway_relay_beats_joined_total: counter('heartbeats merged with an equal one'),
  slipway_relay_batches_total: counter('batches sent'),
  slipway_relay_beats_unheard_total: counter(
    'heartbeats that the control plane did not receive; their agents got a retry time',
  ),
  slipway_relay_beats_held: gauge('heartbeats that wait for an answer'),
  slipway_relay_upstream_away_seconds: gauge(
    'seconds since the first batch that could not be passed on; 0 again when one is',
  ),
  slipway_relay_upstream_streaming: gauge('1 while batches go by a stream'),
};

/** The metrics of the Node process that alerts and dashboards use. The server has more of them. */
export const processMetrics: Record<string, Metric> = {
  process_cpu_seconds_total: counter('CPU time'),
  process_resident_memory_bytes: gauge('resident memory'),
  process_open_fds: gauge('open file descriptors'),
  process_max_fds: gauge('limit of file descriptors'),
  process_start_time_seconds: gauge('time of the start'),
};

/** Prometheus itself writes these. */
const prometheusMetrics: Record<string, Metric> = {
  up: gauge('1 while the target answers'),
  scrape_duration_seconds: gauge('how long the last scrape took'),
  ALERTS: gauge('pending and firing alerts', { alertname: null, alertstate: ['pending', 'firing'], severity: null }),
};

/** Labels that Prometheus adds to every series, from its scrape configuration. */
export const targetLabels: Metric['labels'] = { job: ['slipway', 'slipway-relay'], instance: null };

export const knownMetrics: Record<string, Metric> = {
  ...fleetMetrics,
  ...replicaMetrics,
  ...relayMetrics,
  ...processMetrics,
  ...prometheusMetrics,
};
