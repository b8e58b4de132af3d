/** The usage of `slipway upgrade`, and its report for people. */
import type { PlannedEffect, PlannedMigration, UpgradeFinding, UpgradeReport } from '../store/upgrade/check.ts';
import { releases } from '../store/upgrade/releases.ts';

export const upgradeUsage = `Usage: slipway upgrade --check [--database-url URL | --data-dir DIR] [--json]

Says what happens when this version starts on the database. Changes nothing.

  --check               required; the upgrade itself is the start of the newer server
  --database-url URL    the database, as for slipway serve (SLIPWAY_OWNER_DATABASE_URL, SLIPWAY_DATABASE_URL)
  --data-dir DIR        the data directory of a server with the embedded database (SLIPWAY_DATA_DIR; default .slipway)
  --json                print one JSON document

Exit status: 0 ready, 1 read the findings first, 2 refused or not checked`;

const formatMegabytes = (bytes: number): string => `${Math.ceil(bytes / 1_000_000)} MB`;
const formatDuration = (seconds: number): string => (seconds < 1 ? 'under 1 s' : `about ${Math.ceil(seconds)} s`);

const blocked: Record<PlannedEffect['blocks'], string> = {
  nothing: 'blocks nothing',
  writes: 'blocks writes',
  everything: 'blocks reads and writes',
};
const works: Record<PlannedEffect['work'], string> = {
  catalog: 'changes only the catalog',
  rows: 'changes rows',
  scan: 'reads the table',
  index: 'builds an index',
  rewrite: 'rewrites the table',
};

const formatEffect = ({ table, blocks, work, bytes, seconds }: PlannedEffect): string =>
  `      ${table} (${formatMegabytes(bytes)}): ${works[work]}, ${blocked[blocks]}, ${formatDuration(seconds)}`;

const formatMigration = ({ name, step, effects }: PlannedMigration): string[] => [
  `    ${name}  ${step}`,
  ...effects.map(formatEffect),
];

function describeFinding(finding: UpgradeFinding): string {
  switch (finding.code) {
    case 'schema_too_new':
      return `This version is too old for the schema: a server must know schema version ${finding.needs}. Use a newer Slipway, or restore a backup.`;
    case 'replicas_too_old':
      return `${finding.replica_ids.join(', ')} would break: they must know schema version ${finding.needs}. Stop them, or upgrade them to a version in between first.`;
    case 'no_rollback':
      return finding.because === 'before_window'
        ? `No way back to the earlier version: servers up to ${releases[0]?.version} refuse any newer schema. Make a backup first.`
        : `No way back to the earlier version after ${finding.migrations.join(', ')}. Make a backup first.`;
    case 'blocks_long':
      return `${finding.migration} ${blocked[finding.blocks]} of ${finding.table} for ${formatDuration(finding.seconds)}. Upgrade at a quiet time.`;
    case 'disk_short':
      return `The upgrade needs ${formatMegabytes(finding.needed_bytes)} of disk; ${formatMegabytes(finding.free_bytes)} are free. Free space first.`;
    case 'disk_unknown':
      return `The disk of the database needs ${formatMegabytes(finding.needed_bytes)} free. Check it on the host of the database.`;
    case 'agents_too_old':
      return `${finding.nodes} nodes have an agent that is more than two MINORs old. First upgrade those agents to the version of the server that runs now.`;
  }
}

const verdicts: Record<UpgradeReport['verdict'], string> = {
  ready: 'Ready: this version can start on the database.',
  attention: 'Read this first:',
  refused: 'The start would be refused:',
};

export function renderUpgrade(report: UpgradeReport): string {
  const { schema, migrations, rollback, replicas, agents, disk, findings } = report;
  const lines = [
    `  Slipway ${report.version} on this database`,
    '',
    `  Schema      ${schema.database} in the database, ${schema.program} in this version`,
    `  Migrations  ${migrations.length === 0 ? 'none' : migrations.length}`,
    ...migrations.flatMap(formatMigration),
    `  Rollback    ${rollback.possible ? 'yes, by starting the earlier version again' : 'no'}`,
    `  Disk        needs ${formatMegabytes(disk.needed_bytes)}, ${disk.free_bytes === null ? 'free space unknown' : `${formatMegabytes(disk.free_bytes)} free`}`,
    `  Replicas    ${replicas.length === 0 ? 'none runs' : `${replicas.length} running`}`,
    ...replicas.map(
      ({ replica_id, version, knows, address, host }) =>
        `    ${replica_id}  ${version}, knows schema ${knows}, ${address || host}`,
    ),
    `  Agents      ${agents.length === 0 ? 'none' : ''}`.trimEnd(),
    ...agents.map(
      ({ version, nodes, supported }) =>
        `    ${version ?? 'without a version'}: ${nodes} nodes${supported ? '' : ', too old'}`,
    ),
    '',
    `  ${verdicts[report.verdict]}`,
    ...findings.map((finding) => `    - ${describeFinding(finding)}`),
  ];
  return `${lines.join('\n')}\n`;
}
