/** Renders the state of the server itself: its problems first, then one line for each part. */
import type { ServerProblem, ServerStatus } from '../../../contract/fleet/server-status.ts';
import type { ReplyOf } from '../../../contract/route.ts';
import type { Routes } from '../../../contract/routes.ts';
import { formatSize } from '../../../lifecycle/findings/diagnostics.ts';
import { licencesText } from '../../../lifecycle/findings/licences.ts';
import { formatDays } from '../../../lifecycle/findings/server-problems.ts';
import { formatAge, formatMoment, formatRelative } from '../text/duration.ts';
import type { RenderContext } from '../text/hints.ts';
import { type Column, type Fact, renderFacts, renderTable } from '../text/table.ts';
import { formatCount, printable, wrap } from '../text/text.ts';

const percent = (part: number, whole: number) => `${Math.round((100 * part) / whole)} %`;

const usageText = (use: { used: number; limit: number } | null): string | null =>
  use && `${use.used} of ${use.limit} (${percent(use.used, use.limit)})`;

function problemLines(problem: ServerProblem, { paint, width, nowMs }: RenderContext): string[] {
  const { title, says, remedy, owner_layer, since } = problem;
  const wrapIndented = (text: string) => wrap(printable(text), width - 2).map((line) => `  ${line}`);
  return [
    `${paint('bad', '✖')} ${paint('strong', title)}  ${paint('quiet', `began ${formatRelative(since, nowMs)}, owner: ${owner_layer}`)}`,
    ...wrapIndented(says),
    ...wrapIndented(`What to do: ${remedy}`),
  ];
}

const replicaColumns = (nowMs: number): Column<ServerStatus['replicas'][number]>[] => [
  { title: 'REPLICA', value: ({ replica_id }) => replica_id },
  { title: 'VERSION', value: ({ version }) => version },
  {
    title: 'STATE',
    value: ({ live }) => (live ? 'live' : 'silent'),
    tone: ({ live }) => (live ? 'good' : 'bad'),
  },
  { title: 'STARTED', value: ({ started_at }) => formatRelative(started_at, nowMs), drop: 6 },
  { title: 'ADDRESS', value: ({ address }) => printable(address), drop: 5, below: true },
];

function sweepsText({ sweeps, at }: ServerStatus): string {
  const failing = sweeps.filter(({ error }) => error !== null).length;
  const latest = sweeps.map(({ last_run_at }) => last_run_at ?? '').reduce((a, b) => (a > b ? a : b), '');
  const lastRun = latest === '' ? 'none has run yet' : `the last ran ${formatRelative(latest, Date.parse(at))}`;
  return `${formatCount(sweeps.length, 'sweep')}, ${failing === 0 ? 'none fails' : `${failing} fail`}; ${lastRun}`;
}

const databaseText = ({ database }: ServerStatus): string =>
  [
    `PostgreSQL ${database.server_version}`,
    database.is_standby ? 'standby' : 'primary',
    formatSize(database.bytes),
    `schema ${database.schema_version}`,
  ].join(', ');

function growthText({ growth }: ServerStatus): string | null {
  if (!growth) return null;
  const { bytes_per_day, bytes_per_node_day, full_in_days } = growth;
  if (bytes_per_day <= 0) return 'none in the last week';
  return [
    `${formatSize(bytes_per_day)} a day`,
    ...(bytes_per_node_day === null ? [] : [`${formatSize(bytes_per_node_day)} for each machine`]),
    ...(full_in_days === null ? [] : [`the disk is full in ${formatDays(full_in_days)} at this rate`]),
  ].join(', ');
}

function statusFacts(status: ServerStatus, nowMs: number): Fact[] {
  const { database, disk, heap, certificate, backup, licences, log } = status;
  const isHealthy = database.state === 'ok' || database.state === 'slow';
  return [
    ['version', `${status.version} on Node ${status.node_version}`],
    ['started', formatMoment(status.started_at, nowMs)],
    ['database', databaseText(status)],
    [
      'database state',
      database.detail ? `${database.state}: ${database.detail}` : database.state,
      isHealthy ? 'good' : 'bad',
    ],
    ['all connections', usageText(database.connections)],
    ['own connections', usageText(database.own_connections)],
    ['evidence read', status.tail_lag_seconds < 1 ? 'up to now' : `up to ${formatAge(status.tail_lag_seconds)} ago`],
    ['sweeps', sweepsText(status)],
    ['disk', disk && `${formatSize(disk.free_bytes)} of ${formatSize(disk.total_bytes)} free`],
    ['growth', growthText(status)],
    ['heap', `${formatSize(heap.used)} of ${formatSize(heap.limit)} (${percent(heap.used, heap.limit)})`],
    ['file descriptors', usageText(status.files)],
    ['certificate', certificate && `ends ${formatMoment(certificate.ends_at, nowMs)}`],
    ['last backup', backup && (backup.last_at === null ? 'none' : formatMoment(backup.last_at, nowMs))],
    ['licences', licences && `${licencesText(licences)}; all in ${printable(licences.list)}`],
    ['log level', log.until === null ? log.level : `${log.level} until ${formatMoment(log.until, nowMs)}`],
  ];
}

/** The facts that a server can report while it is not ready, for example without its database. */
export interface UnreadyServer {
  version: string;
  readiness: ReplyOf<Routes['readiness-get']>;
}

export function notReadyLines({ version, readiness }: UnreadyServer, context: RenderContext): string[] {
  const { paint } = context;
  const checkFacts = Object.entries(readiness.checks).map(
    ([name, { ok, state, detail }]): Fact => [
      name,
      printable(detail === null ? state : `${state}: ${detail}`),
      ok ? 'good' : 'bad',
    ],
  );
  return [
    `${paint('bad', '✖')} ${paint('strong', 'The server answers, but it is not ready')}`,
    '  The rest of its status is unknown until it is.',
    '',
    ...renderFacts([['version', version], ...checkFacts], context),
  ];
}

export function statusLines(status: ServerStatus, context: RenderContext): string[] {
  const { paint, nowMs } = context;
  const { problems } = status;
  return [
    ...(problems.length === 0
      ? [`${paint('good', '✔')} ${paint('strong', 'No problems')}`]
      : problems.flatMap((problem) => problemLines(problem, context))),
    '',
    ...renderFacts(statusFacts(status, nowMs), context),
    '',
    ...renderTable(replicaColumns(nowMs), status.replicas, context),
  ];
}
