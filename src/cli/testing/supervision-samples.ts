/** Sample wire objects for tests: explanations, brake, sweeps, findings and residue. */
import type { AllocationActed } from '../../contract/allocation-action.ts';
import type { ServerProblem, ServerStatus } from '../../contract/fleet/server-status.ts';
import type { Held } from '../../contract/node.ts';
import type { Explanation, NodeActed } from '../../contract/supervision/explanation.ts';
import type { Finding, FindingDecided } from '../../contract/supervision/finding.ts';
import type { Residue } from '../../contract/supervision/residue.ts';
import type { Brake, Maintenance } from '../../contract/supervision/supervision.ts';
import type { SweepRun } from '../commands/supervision/sweeps.ts';
import { sampleAllocation, sampleEvidence, sampleIds, sampleNode } from './samples.ts';

const at = (minute: number) => `2026-01-01T12:${String(minute).padStart(2, '0')}:00.000Z`;

export const sampleNext = (condition: string, leads_to: string, at: string | null): Explanation['next'][number] => ({
  if: condition,
  // biome-ignore lint/suspicious/noThenProperty: a name of the wire contract; nothing awaits it.
  then: leads_to,
  at,
});

export const sampleExplanation = (fields: Partial<Explanation> = {}): Explanation => ({
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  status: 'offline',
  status_since: at(2),
  means: 'Silent; it can return until its deadline.',
  because: {
    rule: 'liveness',
    verdict: 'no heartbeat arrived for 42 s (allowed: 30 s)',
    owner: 'node',
    at: at(2),
    evidence: [sampleEvidence({ at: at(2), layer: 'rule', kind: 'node.offline', summary: 'ready → offline: silent' })],
  },
  waiting_for: 'a heartbeat',
  deadline_at: at(50),
  budget_seconds: 3600,
  budget_source: 'pool',
  held: null,
  would_have: null,
  next: [
    sampleNext('its heartbeats resume', 'its former status', null),
    sampleNext('it stays silent until then', 'failed, by offline-deadline', at(50)),
  ],
  progress: null,
  slow_stages: [],
  holder: null,
  residue: [],
  findings: [],
  actions: [
    { action: 'extend-deadline', does: 'gives it more time', open: true, why_not: null },
    {
      action: 'apply-held-verdict',
      does: 'lets the held verdict go',
      open: false,
      why_not: 'No verdict is held.',
    },
  ],
  ...fields,
});

export const sampleHeld = (fields: Partial<Held> = {}): Held => ({
  rule: 'liveness',
  to: 'offline',
  kind: 'mass-failure',
  hold: 'hold_1',
  reason: '8 of 12 machines in pool fleet would be given up within 60 s',
  since: at(4),
  held_until: at(54),
  ...fields,
});

export const sampleHold = (fields: Partial<Brake['holds'][number]> = {}): Brake['holds'][number] => ({
  hold_id: 'hold_1',
  kind: 'mass-failure',
  rule: 'liveness',
  scope: 'pool',
  name: 'fleet',
  reason: '8 of 12 machines in pool fleet would be given up within 60 s',
  effect: 'hold',
  negative: 8,
  population: 12,
  since: at(4),
  held_until: at(54),
  resumed_at: null,
  resumed_by: null,
  ended_at: null,
  ...fields,
});

export const sampleWindow = (fields: Partial<Maintenance> = {}): Maintenance => ({
  name: 'switch',
  pool: null,
  zone: 'eu-1',
  labels: { rack: '7' },
  starts_at: at(0),
  ends_at: at(55),
  reason: 'a new switch',
  actor: { kind: 'token', id: 'tok_1', name: 'ops' },
  ...fields,
});

/** A brake without holds. Its time is ten minutes after the start of the samples. */
export const sampleBrake = (fields: Partial<Brake> = {}): Brake => ({
  at: at(10),
  holding: false,
  held: [],
  holds: [],
  gaps: [],
  heard_through: at(10),
  maintenance: [],
  ...fields,
});

export const sampleSweep = (fields: Partial<SweepRun> = {}): SweepRun => ({
  name: 'liveness',
  every_seconds: 1,
  last_run_at: at(10),
  last_seconds: 0.004,
  lateness_seconds: 0.8,
  runs: 120,
  decided: 3,
  held: 8,
  would_have: 0,
  waiting: false,
  error: null,
  failed_at: null,
  ...fields,
});

export const sampleServerProblem = (fields: Partial<ServerProblem> = {}): ServerProblem => ({
  code: 'disk_low',
  title: 'The disk is nearly full',
  says: '900 MB of 10.0 GB are free',
  remedy: 'Enlarge the disk of the data directory, or shorten the retention of the class that grows.',
  owner_layer: 'operator',
  since: at(2),
  facts: { free_bytes: 9e8, total_bytes: 1e10 },
  ...fields,
});

export const sampleServerStatus = (fields: Partial<ServerStatus> = {}): ServerStatus => ({
  at: at(10),
  replica_id: 'rep_1',
  version: '0.1.0',
  node_version: 'v24.0.0',
  started_at: at(0),
  replicas: [
    {
      replica_id: 'rep_1',
      host: 'host',
      address: 'http://127.0.0.1:7070',
      version: '0.1.0',
      live: true,
      started_at: at(0),
    },
  ],
  database: {
    state: 'ok',
    detail: null,
    server_version: '18.1',
    is_standby: false,
    schema_version: 59,
    bytes: 12 * 1024 ** 2,
    connections: { used: 50, limit: 97 },
    own_connections: { used: 12, limit: 29 },
  },
  growth: { bytes_per_day: 3 * 1024 ** 2, bytes_per_node_day: 65 * 1024, full_in_days: 40.5 },
  tail_lag_seconds: 0.4,
  sweeps: [sampleSweep()],
  disk: { free_bytes: 5e10, total_bytes: 1e11 },
  files: { used: 80, limit: 1024 },
  heap: { used: 1e8, limit: 2e9 },
  certificate: { starts_at: '2026-01-01T00:00:00.000Z', ends_at: '2026-03-01T00:00:00.000Z' },
  backup: null,
  licences: {
    packages: 8,
    counts: { MIT: 3, 'Apache-2.0': 2, ISC: 1, 'BSD-3-Clause': 1, 'OFL-1.1': 1 },
    list: '/usr/lib/slipway/THIRD-PARTY-NOTICES',
  },
  log: { level: 'warn', usual: 'warn', until: null },
  problems: [],
  ...fields,
});

export const sampleActed = (fields: Partial<NodeActed> = {}): NodeActed => ({
  node: sampleNode({ status: 'offline', deadline_at: at(50) }),
  operation: null,
  dry_run: false,
  predicts: { status: 'offline', deadline_at: at(50), says: `its deadline moves to ${at(50)}` },
  ...fields,
});

export const sampleAllocationActed = (fields: Partial<AllocationActed> = {}): AllocationActed => ({
  allocation: sampleAllocation({ status: 'releasing' }),
  operation: null,
  dry_run: false,
  predicts: { status: 'releasing', deadline_at: null, says: 'its release is tried again, now' },
  ...fields,
});

export const sampleFinding = (fields: Partial<Finding> = {}): Finding => ({
  finding_id: 'find_1',
  kind: 'drift',
  what: 'machine_absent',
  owner_layer: 'provider',
  says: 'its provider no longer shows the machine',
  ways_out: ['If the removal was intended, accept the finding.'],
  subject: sampleIds.node_id,
  pool: 'gpu',
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  allocation_id: sampleIds.allocation_id,
  ours: { status: 'ready', status_since: at(2) },
  theirs: { state: 'absent', detail: null, driver: 'local' },
  status: 'open',
  first_seen_at: at(3),
  seen_at: at(5),
  passes: 3,
  opened_at: at(4),
  closed_at: null,
  actor: null,
  reason: null,
  ...fields,
});

export const sampleDecided = (fields: Partial<FindingDecided> = {}): FindingDecided => ({
  finding: sampleFinding({ status: 'repaired', reason: 'the rack was sold', closed_at: at(6) }),
  operation: null,
  dry_run: false,
  predicts: { says: 'the node is torn down with proof and retired' },
  ...fields,
});

export const sampleResidue: Residue = {
  residue_id: 'res_1',
  driver: 'local',
  pool: 'gpu',
  host: 'rack-7',
  kind: 'directory',
  resource: '/nodes/inst_1',
  node_id: sampleIds.node_id,
  node_instance_id: sampleIds.node_instance_id,
  allocation_id: sampleIds.allocation_id,
  workflow_id: null,
  why: 'force-release',
  reason: 'the tenant cannot wait',
  forced_by: { kind: 'token', id: 'tok_1', name: 'ada' },
  status: 'open',
  since: '2026-01-01T12:00:00.000Z',
  seen_at: null,
  verified_at: '2026-01-01T12:00:00.000Z',
  seen: 'still there on host rack-7',
  cost_per_hour: 1.5,
  settled_at: null,
  settled_by: null,
  settled_reason: null,
  proof: null,
};
