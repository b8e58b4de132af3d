/**
 * Test series for each alert: one set that fires it, and one or more that come close and do not.
 * promtool runs them (test/outsiders/promtool.test.ts).
 */
import type { AlertName } from './alerts.ts';

/** Series in the notation of promtool, one value a minute. */
export type Series = Record<string, string>;

export interface AlertCase {
  fires: Series;
  /** The labels of the alert that fires, besides severity and owner. */
  labels: Record<string, string>;
  /** One or more sets. */
  quiet: Series | readonly Series[];
  /** When all are evaluated. */
  at: string;
}

const replica = 'job="slipway",instance="a:7070"';
const labels = { job: 'slipway', instance: 'a:7070' };
const relay = 'job="slipway-relay",instance="r:7071"';
const up = (instance: string, values: string) => ({ [`up{job="slipway",instance="${instance}"}`]: values });
const sweepOf = (metric: string, sweep: string, values: string) => ({
  [`slipway_sweep_${metric}{${replica},sweep="${sweep}"}`]: values,
});
const database = (state: string, values: string) => ({
  [`slipway_database_state{${replica},state="${state}"}`]: values,
});
const nodes = (status: string, values: string) => ({ [`slipway_nodes{${replica},status="${status}"}`]: values });
const fenced = (status: string, values: string) => ({
  [`slipway_fenced_oldest_seconds{${replica},pool="gpu",status="${status}"}`]: values,
});
const finding = (kind: string, values: string) => ({ [`slipway_findings{${replica},kind="${kind}"}`]: values });

export const alertCases: Record<AlertName, AlertCase> = {
  SlipwayDown: {
    fires: { ...up('a:7070', '1x10 0x20'), ...up('b:7070', '1x10 _x20') },
    labels: {},
    quiet: { ...up('a:7070', '0x30'), ...up('b:7070', '1x30') },
    at: '20m',
  },
  SlipwayReplicaDown: {
    fires: { ...up('a:7070', '0x30'), ...up('b:7070', '1x30') },
    labels,
    quiet: { ...up('a:7070', '0x30'), ...up('b:7070', '0x30') },
    at: '20m',
  },
  SlipwayDatabaseAway: {
    fires: { ...database('unavailable', '0x10 1x20'), ...database('ok', '1x10 0x20') },
    labels: { state: 'unavailable' },
    // A slow database serves, and a restart of the database ends within the minute.
    quiet: [
      { ...database('slow', '1x30'), ...database('ok', '0x30') },
      { ...database('unavailable', '0x19 1 0x10'), ...database('ok', '1x19 0 1x10') },
    ],
    at: '20m',
  },
  SlipwayHeartbeatsNotStored: {
    // The last flush hangs.
    fires: { [`slipway_beats_behind_seconds{${replica}}`]: '0.2x5 5+60x10' },
    labels,
    // One flush was slow, and no heartbeat has arrived since.
    quiet: { [`slipway_beats_behind_seconds{${replica}}`]: '0.2x7 5.5 0x10' },
    at: '10m',
  },
  SlipwayNoHeartbeats: {
    // The alert lasts, and a restart of the replica in the ninth hour does not end it.
    fires: {
      [`slipway_beats_total{${replica}}`]: '0+60x60 3600x420 0x120',
      ...nodes('ready', '5x60 0x540'),
      ...nodes('offline', '0x60 5x540'),
    },
    labels: {},
    quiet: [
      // A fleet without agents never sent a heartbeat.
      { [`slipway_beats_total{${replica}}`]: '0x600', ...nodes('ready', '5x600') },
      // Each machine sends a heartbeat every 20 min.
      {
        [`slipway_beats_total{${replica}}`]: Array.from({ length: 30 }, (_, sent) => `${sent}x19`).join(' '),
        ...nodes('ready', '1x600'),
      },
      // The fleet was scaled down.
      { [`slipway_beats_total{${replica}}`]: '0+60x60 3600x540', ...nodes('ready', '5x60 0x540') },
    ],
    at: '599m',
  },
  SlipwaySweepFailing: {
    fires: sweepOf('failing', 'liveness', '0x5 1x10'),
    labels: { ...labels, sweep: 'liveness' },
    quiet: { ...sweepOf('failing', 'liveness', '0x5 1 0x10'), ...sweepOf('failing', 'housekeeping', '1x20') },
    at: '15m',
  },
  SlipwayBackgroundSweepFailing: {
    fires: sweepOf('failing', 'housekeeping', '1x50'),
    labels: { ...labels, sweep: 'housekeeping' },
    quiet: {
      // Two runs failed.
      ...sweepOf('failing', 'housekeeping', '0x20 1x19 0x10'),
      ...sweepOf('failing', 'liveness', '1x50'),
      ...sweepOf('failing', 'evidence-seal', '1x50'),
    },
    at: '40m',
  },
  SlipwaySweepStalled: {
    fires: sweepOf('runs_total', 'liveness', '0+12x10 120x20'),
    labels: { ...labels, sweep: 'liveness' },
    // Housekeeping runs every ten minutes only.
    quiet: { ...sweepOf('runs_total', 'liveness', '0+12x30'), ...sweepOf('runs_total', 'housekeeping', '3x30') },
    at: '25m',
  },
  SlipwaySweepLate: {
    fires: { ...sweepOf('lateness_seconds', 'liveness', '90x30'), ...sweepOf('decided_total', 'liveness', '0+1x30') },
    labels: { ...labels, sweep: 'liveness' },
    quiet: [
      { ...sweepOf('lateness_seconds', 'liveness', '90x30'), ...sweepOf('decided_total', 'liveness', '7x30') },
      // One verdict, 8 min ago.
      { ...sweepOf('lateness_seconds', 'liveness', '90x30'), ...sweepOf('decided_total', 'liveness', '7x16 8x20') },
    ],
    at: '25m',
  },
  SlipwayEvidenceNotSealed: {
    fires: sweepOf('failing', 'evidence-seal', '1x20'),
    labels: { ...labels, sweep: 'evidence-seal' },
    quiet: sweepOf('failing', 'liveness', '1x20'),
    at: '15m',
  },
  SlipwayStoreSlow: {
    fires: { [`scrape_duration_seconds{${replica}}`]: '3x20' },
    labels,
    quiet: {
      [`scrape_duration_seconds{${replica}}`]: '0.1x10 3 0.1x10',
      'scrape_duration_seconds{job="node"}': '9x20',
    },
    at: '12m',
  },
  SlipwayDiskFullSoon: {
    fires: { [`slipway_disk_free_bytes{${replica}}`]: '100000000000-20000000x200' },
    labels,
    quiet: [
      { [`slipway_disk_free_bytes{${replica}}`]: '100000000000-1000000x200' },
      // A vacuum or a backup took space for half an hour.
      { [`slipway_disk_free_bytes{${replica}}`]: '100000000000x100 100000000000-100000000x30 100000000000x70' },
    ],
    at: '180m',
  },
  SlipwayBackupOld: {
    fires: {
      [`slipway_backup_age_seconds{${replica}}`]: '5000+60x60',
      [`slipway_backup_every_seconds{${replica}}`]: '3600x60',
    },
    labels,
    quiet: {
      [`slipway_backup_age_seconds{${replica}}`]: '0+60x60 0+60x60',
      [`slipway_backup_every_seconds{${replica}}`]: '3600x120',
    },
    at: '30m',
  },
  SlipwayOverloaded: {
    fires: {
      [`slipway_shed_total{${replica},what="reads"}`]: '0+5x40',
      [`slipway_shed_total{${replica},what="beats"}`]: '0x40',
    },
    labels,
    quiet: { [`slipway_shed_total{${replica},what="reads"}`]: '0 40x40' },
    at: '30m',
  },
  SlipwayEventLoopLate: {
    fires: { [`slipway_loop_lag_seconds{${replica}}`]: '1.5x20' },
    labels,
    quiet: { [`slipway_loop_lag_seconds{${replica}}`]: '0.9x20' },
    at: '10m',
  },
  SlipwayConnectionsRefused: {
    fires: { [`slipway_connections_closed_total{${replica},reason="limit"}`]: '0+2x30' },
    labels: { ...labels, reason: 'limit' },
    quiet: { [`slipway_connections_closed_total{${replica},reason="idle"}`]: '0+2x30' },
    at: '20m',
  },
  SlipwayFileDescriptorsLow: {
    fires: { [`process_open_fds{${replica}}`]: '1000x30', [`process_max_fds{${replica}}`]: '1024x30' },
    labels,
    quiet: { [`process_open_fds{${replica}}`]: '950x30', [`process_max_fds{${replica}}`]: '1024x30' },
    at: '20m',
  },
  SlipwayLogsDropped: {
    fires: { [`slipway_logs_forward_dropped_lines_total{${replica},receiver="loki"}`]: '0+9x40' },
    labels: { ...labels, receiver: 'loki' },
    quiet: { [`slipway_logs_forward_dropped_lines_total{${replica},receiver="loki"}`]: '0 9x40' },
    at: '30m',
  },
  SlipwayBrakeEngaged: {
    // Two replicas read the same hold from the database, and one alert fires.
    fires: {
      [`slipway_brake_holds{${replica},rule="liveness"}`]: '0x5 1x10',
      'slipway_brake_holds{job="slipway",instance="b:7070",rule="liveness"}': '0x5 1x10',
    },
    labels: { rule: 'liveness' },
    // A person has resumed this hold.
    quiet: { [`slipway_brake_holds{${replica},rule="liveness"}`]: '0x20' },
    at: '10m',
  },
  SlipwayReleaseFailed: {
    fires: { [`slipway_parked_oldest_seconds{${replica},pool="gpu",status="release_failed"}`]: '7000+60x20' },
    labels: { pool: 'gpu' },
    quiet: { [`slipway_parked_oldest_seconds{${replica},pool="gpu",status="release_failed"}`]: '0+60x20' },
    at: '15m',
  },
  SlipwayMachineStuck: {
    fires: fenced('cleaning', '7100+60x20'),
    labels: { pool: 'gpu', status: 'cleaning' },
    quiet: { ...fenced('cleaning', '100+60x20'), ...fenced('quarantined', '9000+60x20') },
    at: '15m',
  },
  SlipwayMachineQuarantined: {
    fires: fenced('quarantined', '86300+60x20'),
    labels: { pool: 'gpu' },
    quiet: fenced('quarantined', '9000+60x20'),
    at: '15m',
  },
  SlipwayResidueOpen: {
    fires: { [`slipway_residue_oldest_seconds{${replica},driver="ec2"}`]: '90000+60x20' },
    labels: { driver: 'ec2' },
    quiet: { [`slipway_residue_oldest_seconds{${replica},driver="ec2"}`]: '600+60x20' },
    at: '15m',
  },
  SlipwayNameContested: {
    fires: finding('identity', '0x5 1x10'),
    labels: {},
    quiet: { ...finding('identity', '0x15'), ...finding('drift', '3x15') },
    at: '10m',
  },
  SlipwayTokenExpiring: {
    fires: finding('join-token', '1x20'),
    labels: { kind: 'join-token' },
    quiet: { ...finding('token', '0x20'), ...finding('drift', '1x20') },
    at: '10m',
  },
  SlipwayFindingOpen: {
    fires: finding('drift', '2x90'),
    labels: { kind: 'drift' },
    // The finding resolves and opens again within the hour.
    quiet: finding('drift', '2x40 0x5 2x45'),
    at: '80m',
  },
  SlipwayRelayCutOff: {
    fires: {
      [`slipway_relay_upstream_away_seconds{${relay}}`]: '0 10+60x20',
      [`slipway_relay_beats_total{${relay}}`]: '0+9x20',
    },
    labels: { job: 'slipway-relay', instance: 'r:7071' },
    quiet: [
      {
        [`slipway_relay_upstream_away_seconds{${relay}}`]: '0 20 0x20',
        [`slipway_relay_beats_total{${relay}}`]: '0+9x20',
      },
      // Its agents use another address.
      {
        [`slipway_relay_upstream_away_seconds{${relay}}`]: '0 10+60x20',
        [`slipway_relay_beats_total{${relay}}`]: '0 9x20',
      },
    ],
    at: '10m',
  },
  SlipwayRelayDown: {
    fires: { [`up{${relay}}`]: '1x5 0x10' },
    labels: { job: 'slipway-relay', instance: 'r:7071' },
    quiet: { [`up{${relay}}`]: '1x5 0 1x10' },
    at: '10m',
  },
};
