/**
 * The alert table. Each alert has a section of the same name in docs/how-to/monitoring.md, and test
 * series in alert-cases.ts.
 */
export interface Alert {
  expression: string;
  /** How long the expression must hold, as Prometheus writes it. */
  for: string;
  /** `critical` wakes a person; `warning` can wait for working hours. */
  severity: 'critical' | 'warning';
  /** `server`: the people who run Slipway. `fleet`: the people who run the machines. */
  owner: 'server' | 'fleet';
  /** May contain `{{ $labels.NAME }}`. */
  summary: string;
}

/**
 * Sweeps that judge machines or hand over work. Their intervals are fixed and below 15 s. Sweeps
 * that wait for a provider are not among them: they fail or hang when the provider does.
 */
const supervising = [
  'ingest-watch',
  'replica-takeover',
  'brake-watch',
  'operation-start',
  'provision-deadline',
  'prober',
  'probe-promotes',
  'stuck-starting',
  'start-deadline',
  'liveness',
  'offline-deadline',
  'drained',
  'drain-deadline',
  'clean-deadline',
  'queue-deadline',
  'release-deadline',
  'task-lease',
].join('|');

export const alerts = {
  SlipwayDown: {
    // `absent` also fires if Prometheus lost the targets themselves.
    expression: 'absent(up{job="slipway"} == 1)',
    for: '2m',
    severity: 'critical',
    owner: 'server',
    summary: 'No replica of Slipway answers.',
  },
  SlipwayReplicaDown: {
    expression: 'up{job="slipway"} == 0 unless on() absent(up{job="slipway"} == 1)',
    for: '5m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} does not answer; others do.',
  },
  SlipwayDatabaseAway: {
    expression: 'max by (state) (slipway_database_state{state=~"unavailable|read_only|disk_full|commit_waits"}) == 1',
    for: '1m',
    severity: 'critical',
    owner: 'server',
    summary: 'Replicas cannot use the database: {{ $labels.state }}.',
  },
  SlipwayHeartbeatsNotStored: {
    // The age falls after each flush and grows until the next, so its recent peak counts.
    expression: 'max_over_time(slipway_beats_behind_seconds[2m]) > 4',
    for: '3m',
    severity: 'critical',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} receives heartbeats but stores them late.',
  },
  SlipwayNoHeartbeats: {
    // The range must exceed three of the longest intervals in use. The second part keeps fleets
    // without agents quiet: a counter of heartbeats does not fall back to 0 before a restart, and
    // one day covers that. The third part keeps a fleet quiet that was scaled down.
    expression:
      'sum(rate(slipway_beats_total[1h])) == 0 and sum(max_over_time(slipway_beats_total[1d])) > 0 and sum(max by (status) (slipway_nodes{status=~"ready|degraded|offline"})) > 0',
    for: '5m',
    severity: 'critical',
    owner: 'server',
    summary: 'No machine has sent a heartbeat for an hour.',
  },
  SlipwaySweepFailing: {
    expression: `slipway_sweep_failing{sweep=~"${supervising}"} == 1`,
    for: '5m',
    severity: 'critical',
    owner: 'server',
    summary: 'The sweep {{ $labels.sweep }} fails on {{ $labels.instance }}.',
  },
  SlipwayBackgroundSweepFailing: {
    expression: `slipway_sweep_failing{sweep!~"${supervising}|evidence-seal"} == 1`,
    // The longest default interval is 10 min, so three runs in a row have failed.
    for: '30m',
    severity: 'warning',
    owner: 'server',
    summary: 'The sweep {{ $labels.sweep }} fails on {{ $labels.instance }}.',
  },
  SlipwaySweepStalled: {
    expression: `increase(slipway_sweep_runs_total{sweep=~"${supervising}"}[10m]) == 0`,
    for: '1m',
    severity: 'critical',
    owner: 'server',
    summary: 'The sweep {{ $labels.sweep }} has not run on {{ $labels.instance }} for ten minutes.',
  },
  SlipwaySweepLate: {
    // The gauge keeps its value until the next verdict, so only recent verdicts count. One late
    // verdict satisfies the expression for 10 min, so a longer time takes several.
    expression: 'slipway_sweep_lateness_seconds > 60 and increase(slipway_sweep_decided_total[10m]) > 0',
    for: '15m',
    severity: 'warning',
    owner: 'server',
    summary: 'The verdicts of {{ $labels.sweep }} on {{ $labels.instance }} come more than a minute late.',
  },
  SlipwayEvidenceNotSealed: {
    expression: 'slipway_sweep_failing{sweep="evidence-seal"} == 1',
    for: '10m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} cannot seal evidence.',
  },
  SlipwayStoreSlow: {
    // The replica reads its counts from the database for each scrape.
    expression: 'scrape_duration_seconds{job="slipway"} > 2',
    for: '5m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} takes more than 2 s to read its counts from the database.',
  },
  SlipwayDiskFullSoon: {
    expression: 'predict_linear(slipway_disk_free_bytes[1d], 7 * 86400) < 0',
    for: '1h',
    severity: 'warning',
    owner: 'server',
    summary: 'At the growth of the last day, the disk of {{ $labels.instance }} is full within a week.',
  },
  SlipwayBackupOld: {
    expression: 'slipway_backup_age_seconds > 1.5 * slipway_backup_every_seconds',
    for: '10m',
    severity: 'warning',
    owner: 'server',
    summary: 'The newest backup in the directory of {{ $labels.instance }} is older than one and a half intervals.',
  },
  SlipwayOverloaded: {
    expression: 'sum by (job, instance) (rate(slipway_shed_total[5m])) > 0',
    for: '10m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} defers requests because it is overloaded.',
  },
  SlipwayEventLoopLate: {
    expression: 'slipway_loop_lag_seconds > 1',
    for: '5m',
    severity: 'warning',
    owner: 'server',
    summary: 'The timers of {{ $labels.instance }} run more than a second late.',
  },
  SlipwayConnectionsRefused: {
    expression: 'rate(slipway_connections_closed_total{reason="limit"}[5m]) > 0',
    for: '5m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} refuses connections because too many are open.',
  },
  SlipwayFileDescriptorsLow: {
    expression: 'process_open_fds{job="slipway"} / process_max_fds{job="slipway"} > 0.95',
    for: '10m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} uses more than 95 % of its file descriptors.',
  },
  SlipwayLogsDropped: {
    expression: 'rate(slipway_logs_forward_dropped_lines_total[5m]) > 0',
    for: '10m',
    severity: 'warning',
    owner: 'server',
    summary: 'The replica {{ $labels.instance }} drops log lines that {{ $labels.receiver }} does not accept.',
  },
  SlipwayBrakeEngaged: {
    expression: 'max by (rule) (slipway_brake_holds) > 0',
    for: '1m',
    severity: 'critical',
    owner: 'fleet',
    summary: 'The brake holds the verdicts of {{ $labels.rule }}; a person must decide.',
  },
  SlipwayReleaseFailed: {
    // Slipway retries at least hourly, so two hours mean that a retry failed too.
    expression: 'max by (pool) (slipway_parked_oldest_seconds) > 7200',
    for: '5m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A release in pool {{ $labels.pool }} has been failing for more than two hours.',
  },
  SlipwayMachineStuck: {
    expression: 'max by (pool, status) (slipway_fenced_oldest_seconds{status=~"failed|draining|cleaning"}) > 7200',
    for: '5m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A machine of pool {{ $labels.pool }} has been {{ $labels.status }} for more than two hours.',
  },
  SlipwayMachineQuarantined: {
    expression: 'max by (pool) (slipway_fenced_oldest_seconds{status="quarantined"}) > 86400',
    for: '5m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A machine of pool {{ $labels.pool }} has been quarantined for more than a day.',
  },
  SlipwayResidueOpen: {
    expression: 'max by (driver) (slipway_residue_oldest_seconds) > 86400',
    for: '5m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A resource of driver {{ $labels.driver }} has had no live owner for more than a day.',
  },
  SlipwayNameContested: {
    expression: 'max(slipway_findings{kind="identity"}) > 0',
    for: '1m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A machine was refused because another one uses its name.',
  },
  SlipwayTokenExpiring: {
    expression: 'max by (kind) (slipway_findings{kind=~"token|join-token"}) > 0',
    for: '5m',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A token in use expires soon (finding {{ $labels.kind }}).',
  },
  SlipwayFindingOpen: {
    expression: 'max by (kind) (slipway_findings{kind=~"drift|repeat-failure|boot-shift"}) > 0',
    for: '1h',
    severity: 'warning',
    owner: 'fleet',
    summary: 'A finding of kind {{ $labels.kind }} has been open for an hour.',
  },
  SlipwayRelayCutOff: {
    // Only a delivered batch ends the outage, so the gauge grows on a relay without heartbeats.
    // Agents of a relay that is cut off retry every few seconds.
    expression: 'slipway_relay_upstream_away_seconds > 30 and rate(slipway_relay_beats_total[5m]) > 0',
    for: '1m',
    severity: 'critical',
    owner: 'fleet',
    summary: 'The relay {{ $labels.instance }} cannot pass heartbeats on.',
  },
  SlipwayRelayDown: {
    expression: 'up{job="slipway-relay"} == 0',
    for: '2m',
    severity: 'critical',
    owner: 'fleet',
    summary: 'The relay {{ $labels.instance }} does not answer.',
  },
} as const satisfies Record<string, Alert>;

export type AlertName = keyof typeof alerts;
