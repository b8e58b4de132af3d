/**
 * The effects of each migration on existing tables, and which servers may run afterwards. A test
 * measures the locks and what each migration removes.
 */
import { releases } from './releases.ts';

/** The longest work on a table. It decides how the duration grows with the table. */
export type Work = 'catalog' | 'rows' | 'scan' | 'index' | 'rewrite';
/** Which statements of other sessions wait meanwhile. */
export type Blocks = 'nothing' | 'writes' | 'everything';

export interface Effect {
  table: string;
  blocks: Blocks;
  work: Work;
}

export interface MigrationStep {
  /**
   * `expand` adds, and `migrate` moves rows while older servers still find theirs. `contract` takes
   * away, or changes what older servers rely on.
   */
  step: 'expand' | 'migrate' | 'contract';
  effects: Effect[];
  /** The oldest schema version that a server must know to run after a contract step. */
  runs_from?: number;
  /**
   * A contract step lists here what older servers can no longer rely on: `table`, `table.column`,
   * `function()`, or `table.column required` if every insert must now name the column.
   */
  breaks?: string[];
}

/** The first schema version whose servers accept a newer schema. */
export const windowSchema = 60;

const effectsOf =
  (blocks: Blocks) =>
  (work: Work, ...tables: string[]): Effect[] =>
    tables.map((table) => ({ table, blocks, work }));
const blocksAll = effectsOf('everything');
const blocksWrites = effectsOf('writes');
const blocksNothing = effectsOf('nothing');

export const migrationSteps: Readonly<Record<string, MigrationStep>> = {
  '0001-foundation.sql': { step: 'expand', effects: [] },
  '0002-evidence-order.sql': { step: 'expand', effects: [...blocksAll('catalog', 'evidence')] },
  '0003-verdicts.sql': {
    step: 'contract',
    effects: [
      ...blocksAll('catalog', 'heartbeats', 'replicas'),
      ...blocksWrites('catalog', 'instances'),
      ...blocksAll('index', 'nodes', 'steps'),
    ],
    runs_from: 3,
    breaks: ['nodes.probe_ok_at'],
  },
  '0004-residue.sql': { step: 'expand', effects: [] },
  '0005-findings.sql': { step: 'expand', effects: [...blocksWrites('index', 'allocations', 'evidence', 'nodes')] },
  '0006-recoveries.sql': {
    step: 'expand',
    effects: [...blocksWrites('catalog', 'allocations', 'nodes', 'operations')],
  },
  '0007-evidence-pieces.sql': { step: 'expand', effects: [] },
  '0008-merged.sql': { step: 'expand', effects: [] },
  '0009-log-chunks.sql': {
    step: 'contract',
    effects: [...blocksAll('catalog', 'instances'), ...blocksAll('rewrite', 'node_logs')],
    runs_from: 9,
    breaks: ['node_logs'],
  },
  '0010-verdicts-by-node.sql': { step: 'expand', effects: [...blocksAll('index', 'evidence')] },
  '0011-stage-starts.sql': { step: 'expand', effects: [...blocksAll('catalog', 'boot_stages')] },
  '0012-step-samples.sql': { step: 'expand', effects: [...blocksAll('catalog', 'operations', 'steps')] },
  '0013-front-doors.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0014-left-unproven.sql': { step: 'expand', effects: [...blocksAll('index', 'instances')] },
  '0015-held-by-tenant.sql': { step: 'expand', effects: [...blocksWrites('index', 'allocations')] },
  '0016-learned-budgets.sql': {
    step: 'migrate',
    effects: [...blocksWrites('index', 'boot_samples'), ...blocksAll('rows', 'pools')],
  },
  '0017-boot-shift.sql': {
    step: 'expand',
    effects: [...blocksWrites('index', 'boot_samples'), ...blocksAll('catalog', 'findings')],
  },
  '0019-counts.sql': { step: 'expand', effects: [...blocksWrites('index', 'allocations', 'nodes', 'operations')] },
  '0020-relay-tokens.sql': { step: 'expand', effects: [...blocksAll('catalog', 'tokens')] },
  '0021-free-nodes.sql': { step: 'expand', effects: [...blocksNothing('index', 'nodes')] },
  '0022-expected-in-pool.sql': { step: 'expand', effects: [...blocksNothing('index', 'nodes')] },
  '0024-proven-since.sql': { step: 'expand', effects: [] },
  '0025-beats-need-no-vacuum.sql': { step: 'expand', effects: [] },
  '0027-patience.sql': { step: 'expand', effects: [...blocksAll('catalog', 'heartbeats')] },
  '0028-heartbeats-by-patience.sql': { step: 'expand', effects: [...blocksNothing('index', 'heartbeats')] },
  '0029-room-for-beats.sql': { step: 'expand', effects: [...blocksAll('catalog', 'heartbeats')] },
  '0030-joins.sql': { step: 'expand', effects: [...blocksAll('catalog', 'findings', 'instances')] },
  '0031-instances-by-join-token.sql': { step: 'expand', effects: [...blocksNothing('index', 'instances')] },
  '0034-secrets.sql': { step: 'expand', effects: [] },
  '0036-sessions.sql': { step: 'migrate', effects: [...blocksAll('rows', 'tokens')] },
  '0037-token-uses.sql': {
    step: 'expand',
    effects: [...blocksAll('catalog', 'findings'), ...blocksWrites('catalog', 'tokens')],
  },
  '0038-evidence-seals.sql': { step: 'expand', effects: [] },
  '0040-agent-keys.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0041-credentials-age.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0042-evidence-origin.sql': { step: 'expand', effects: [...blocksAll('catalog', 'evidence')] },
  '0043-reports-since.sql': { step: 'expand', effects: [...blocksAll('catalog', 'heartbeats')] },
  '0045-task-keys.sql': {
    step: 'contract',
    effects: [...blocksAll('rows', 'signing_keys')],
    runs_from: 45,
    breaks: ['signing_keys.signs_from required'],
  },
  '0046-trusted-keys.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0047-earlier-join-tokens.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0049-signed-cuts-only.sql': {
    step: 'contract',
    effects: [...blocksWrites('catalog', 'evidence_cuts')],
    runs_from: 49,
    breaks: ['evidence_pieces()'],
  },
  '0052-client-processes.sql': { step: 'expand', effects: [...blocksAll('catalog', 'instances')] },
  '0054-extend-without-lock-table.sql': { step: 'expand', effects: [] },
  '0055-explaining-facts.sql': { step: 'expand', effects: [...blocksWrites('index', 'evidence')] },
  '0056-task-redelivery.sql': { step: 'expand', effects: [...blocksAll('index', 'tasks')] },
  '0057-boot-sign-kinds.sql': {
    step: 'migrate',
    effects: [
      ...blocksAll('index', 'boot_signs'),
      ...blocksNothing('index', 'boot_signs'),
      ...blocksWrites('catalog', 'boot_signs'),
    ],
  },
  // A replica of 0.1.0 that still runs sees no fact of an era that a restore or a failover begins
  // later. Once stopped, it cannot be started again.
  '0058-evidence-eras.sql': { step: 'expand', effects: [...blocksAll('catalog', 'evidence')] },
  '0059-retention-indexes.sql': {
    step: 'expand',
    effects: [...blocksNothing('index', 'instances', 'nodes', 'recovery_targets', 'tasks')],
  },
  '0060-upgrade-window.sql': { step: 'expand', effects: [...blocksAll('catalog', 'replicas')] },
  '0061-restorations.sql': { step: 'expand', effects: [] },
  '0062-size-samples.sql': { step: 'expand', effects: [] },
};

const versionOf = (name: string): number => Number.parseInt(name, 10);

/** The newest schema version that this program knows. */
export const knownSchema = Math.max(...Object.keys(migrationSteps).map(versionOf));

/** The schema version that a server must know to run after a migration. */
export function runsFrom({ version, name }: { version: number; name: string }, steps = migrationSteps): number {
  const step = steps[name];
  if (!step) return version;
  // Every released server still runs after an expand or migrate step.
  return step.runs_from ?? releases[0]?.schema ?? version;
}
