/**
 * The problems of the server itself: when a fact is a problem, what it means, who has to act, and
 * what to do. The server, the CLI and the console read the same table.
 */
import { formatSize } from './diagnostics.ts';
import type { FindingOwner } from './findings.ts';

/** The facts that a replica has about itself. A fact is null if it cannot be read. */
export interface ServerFacts {
  at: Date;
  /** The state of the database; `ok` and `slow` serve. */
  database: { state: string; detail: string | null };
  /** Connections of all programs to the database server, and how many it allows. */
  connections: { used: number; limit: number } | null;
  /** The database refuses further connections, and this replica has fewer than its maximum. */
  is_short_of_connections: boolean;
  disk: { free_bytes: number; total_bytes: number } | null;
  /** The disk of the database has too little free space for new work. */
  is_short_of_disk: boolean;
  growth: DatabaseGrowth | null;
  files: { used: number; limit: number } | null;
  heap: { used: number; limit: number };
  certificate: { starts_at: Date; ends_at: Date } | null;
  /** Null without scheduled backups. */
  backup: BackupFact | null;
  tail_lag_seconds: number;
  sweeps: readonly SweepFact[];
  /** When the sweeps of this replica started. */
  started_at: Date;
  /** Set after a restore of the database, until a person ends the restoration. */
  restoration: RestorationFact | null;
  /** The last step of the clock of the database. */
  clock_step: { seconds: number; at: Date } | null;
}

export interface DatabaseGrowth {
  /** Negative while the database shrinks. */
  bytes_per_day: number;
  /** Null without machines. */
  bytes_per_node_day: number | null;
  /** The database is on `disk`. False for an external database. */
  is_on_disk: boolean;
}

export interface RestorationFact {
  began_at: Date;
  /** When the last server before the restore stored heartbeats. */
  remembers_until: Date | null;
}

export interface BackupFact {
  /** When the newest good backup was taken. */
  last_at: Date | null;
  /** One interval after the newest good backup; without one, the start of this replica. */
  due_at: Date;
  every_seconds: number;
  /** Whether the last attempt failed. */
  is_failing: boolean;
}

export interface SweepFact {
  name: string;
  every_seconds: number;
  last_run_at: Date | null;
  error: string | null;
}

export type ServerProblem =
  | { code: 'database_unusable'; state: string; detail: string | null }
  | { code: 'disk_full'; detail: string | null }
  | { code: 'connections_low'; used: number; limit: number; refused: boolean }
  | { code: 'disk_low'; free_bytes: number; total_bytes: number; refused: boolean }
  | { code: 'disk_filling'; days: number; bytes_per_day: number; free_bytes: number }
  | { code: 'files_low'; used: number; limit: number }
  | { code: 'memory_low'; used: number; limit: number }
  | { code: 'certificate_ending'; ends_at: string }
  | { code: 'certificate_expired'; ends_at: string }
  | { code: 'backup_old'; last_at: string | null; due_at: string }
  | { code: 'tail_behind'; seconds: number }
  | { code: 'sweep_failing'; sweep: string; error: string }
  | { code: 'sweep_stalled'; sweep: string; last_run_at: string | null }
  | { code: 'database_restored'; remembers_until: string | null }
  | { code: 'clock_stepped'; seconds: number };

export type ServerProblemCode = ServerProblem['code'];

const gigabyte = 1e9;
const day = 86_400;

/** A replica still serves when it passes one of these, so that a person has time to act. */
export const serverLimits = {
  connections_share: 0.9,
  /** The share of the disk that must be free, but never more than `disk_bytes`. */
  disk_share: 0.1,
  disk_bytes: 5 * gigabyte,
  /** A disk that would be full within this many days at the present rate is listed. */
  disk_days: 7,
  files_share: 0.9,
  heap_share: 0.8,
  /** A certificate is listed this long before its end, but at most for a third of its lifetime. */
  certificate_seconds: 14 * day,
  tail_seconds: 10,
  /** A sweep is stalled after three intervals, but not sooner than this. */
  sweep_seconds: 300,
  /** How long a step of the clock stays listed. */
  clock_step_seconds: 3600,
};

/** Null if nothing fills the disk, or if the database is on another one. */
export function daysUntilFull({ disk, growth }: Pick<ServerFacts, 'disk' | 'growth'>): number | null {
  if (!disk || !growth?.is_on_disk || growth.bytes_per_day <= 0) return null;
  return disk.free_bytes / growth.bytes_per_day;
}

const isCertificateEnding = ({ starts_at, ends_at }: { starts_at: Date; ends_at: Date }, at: Date): boolean => {
  const third = (ends_at.getTime() - starts_at.getTime()) / 3;
  return ends_at.getTime() - at.getTime() < Math.min(third, 1000 * serverLimits.certificate_seconds);
};

const isStalled = ({ every_seconds, last_run_at }: SweepFact, { at, started_at }: ServerFacts): boolean =>
  at.getTime() - (last_run_at ?? started_at).getTime() > 1000 * Math.max(serverLimits.sweep_seconds, 3 * every_seconds);

/**
 * Backups may take long, so one is missing only an interval after it was due. The first one counts
 * as missing as soon as an attempt failed.
 */
const isBackupOld = ({ last_at, due_at, every_seconds, is_failing }: BackupFact, at: Date): boolean =>
  at.getTime() - due_at.getTime() > 1000 * every_seconds || (last_at === null && is_failing);

export function findServerProblems(facts: ServerFacts): ServerProblem[] {
  const { at, database, connections, disk, files, heap, certificate, backup, tail_lag_seconds, clock_step } = facts;
  const problems: ServerProblem[] = [];
  const isUsable = database.state === 'ok' || database.state === 'slow';
  const isFull = database.state === 'disk_full';
  if (isFull) problems.push({ code: 'disk_full', detail: database.detail });
  else if (!isUsable) problems.push({ code: 'database_unusable', ...database });
  const refused = facts.is_short_of_connections;
  if (refused || (connections && connections.used >= serverLimits.connections_share * connections.limit))
    problems.push({ code: 'connections_low', ...(connections ?? { used: 0, limit: 0 }), refused });
  if (disk && disk.free_bytes < Math.min(serverLimits.disk_share * disk.total_bytes, serverLimits.disk_bytes))
    problems.push({ code: 'disk_low', ...disk, refused: facts.is_short_of_disk && !isFull });
  const days = daysUntilFull(facts);
  if (days !== null && days < serverLimits.disk_days)
    problems.push({
      code: 'disk_filling',
      days,
      bytes_per_day: facts.growth?.bytes_per_day ?? 0,
      free_bytes: disk?.free_bytes ?? 0,
    });
  if (files && files.used >= serverLimits.files_share * files.limit) problems.push({ code: 'files_low', ...files });
  if (heap.used >= serverLimits.heap_share * heap.limit) problems.push({ code: 'memory_low', ...heap });
  if (certificate && isCertificateEnding(certificate, at))
    problems.push({
      code: certificate.ends_at > at ? 'certificate_ending' : 'certificate_expired',
      ends_at: certificate.ends_at.toISOString(),
    });
  if (backup && isBackupOld(backup, at))
    problems.push({
      code: 'backup_old',
      last_at: backup.last_at?.toISOString() ?? null,
      due_at: backup.due_at.toISOString(),
    });
  // Without its database, the tail is behind and every sweep fails. That is one problem, not forty.
  if (!isUsable) return problems;
  if (facts.restoration)
    problems.push({
      code: 'database_restored',
      remembers_until: facts.restoration.remembers_until?.toISOString() ?? null,
    });
  if (tail_lag_seconds > serverLimits.tail_seconds)
    problems.push({ code: 'tail_behind', seconds: Math.round(tail_lag_seconds) });
  for (const sweep of facts.sweeps) {
    const { name, error, last_run_at } = sweep;
    if (error !== null) problems.push({ code: 'sweep_failing', sweep: name, error });
    else if (isStalled(sweep, facts))
      problems.push({ code: 'sweep_stalled', sweep: name, last_run_at: last_run_at?.toISOString() ?? null });
  }
  if (clock_step && at.getTime() - clock_step.at.getTime() < 1000 * serverLimits.clock_step_seconds)
    problems.push({ code: 'clock_stepped', seconds: clock_step.seconds });
  return problems;
}

/** Identifies a problem while it lasts, although its figures change. */
export const serverProblemKey = (problem: ServerProblem): string =>
  'sweep' in problem ? `${problem.code} ${problem.sweep}` : problem.code;

/** The owner is the layer that has to act. */
export const serverProblemCatalogue: Record<ServerProblemCode, { title: string; owner: FindingOwner; remedy: string }> =
  {
    database_unusable: {
      title: 'The database cannot be used',
      owner: 'operator',
      remedy: 'Look at PostgreSQL: its log, its disk, its standby. You need not restart Slipway.',
    },
    disk_full: {
      title: 'The disk of the database is full',
      owner: 'operator',
      remedy: 'Free space on the disk of PostgreSQL, or enlarge it. You need not restart Slipway.',
    },
    connections_low: {
      title: 'The database has few connections left',
      owner: 'operator',
      remedy: 'End other clients of the database, or raise max_connections.',
    },
    disk_low: {
      title: 'The disk is nearly full',
      owner: 'operator',
      remedy: 'Enlarge the disk of the data directory, or shorten the retention of the class that grows.',
    },
    disk_filling: {
      title: 'The disk will be full soon',
      owner: 'operator',
      remedy: 'Enlarge the disk of the data directory, or shorten the retention of the class that grows.',
    },
    files_low: {
      title: 'Few file descriptors are left',
      owner: 'operator',
      remedy: 'Raise the limit of open files (LimitNOFILE), or put a relay before the machines.',
    },
    memory_low: {
      title: 'The heap is nearly full',
      owner: 'operator',
      remedy: 'Give the server more memory (NODE_OPTIONS=--max-old-space-size=…), or add a replica.',
    },
    certificate_ending: {
      title: 'The certificate ends soon',
      owner: 'operator',
      remedy: 'Renew the files of --tls-cert and --tls-key. They are read again without a restart.',
    },
    certificate_expired: {
      title: 'The certificate has expired',
      owner: 'operator',
      remedy:
        'Renew the files of --tls-cert and --tls-key. They are read again without a restart. Until then agents and people are refused.',
    },
    backup_old: {
      title: 'There is no recent backup',
      owner: 'operator',
      remedy:
        'Look for "the backup failed" in the log of this replica. Repair what it names: the directory, its free space, or the database. The replica tries again within 15 minutes.',
    },
    tail_behind: {
      title: 'New evidence is read late',
      owner: 'operator',
      remedy: 'Look for long transactions and locks in PostgreSQL. Streams and wake-ups stay late until these end.',
    },
    sweep_failing: {
      title: 'A sweep fails',
      owner: 'control_plane',
      remedy: 'Read its error. If it lasts and other replicas succeed, restart this one.',
    },
    sweep_stalled: {
      title: 'A sweep does not run',
      owner: 'control_plane',
      remedy:
        'Look in pg_stat_activity for a session that blocks others (pg_blocking_pids), and end it. If there is none, restart this replica.',
    },
    database_restored: {
      title: 'The database was restored, so the servers only observe',
      owner: 'operator',
      remedy:
        'Compare the machines with the restored rows: slipway restoration. Then run slipway restoration end, so that the servers act again.',
    },
    clock_stepped: {
      title: 'The clock of the database jumped',
      owner: 'operator',
      remedy: 'Let the host of the database slew its clock (chrony, ntpd) instead of stepping it.',
    },
  };

/** Rounded down, so that a disk is never full sooner than stated. */
export function formatDays(days: number): string {
  if (days < 1) return 'less than a day';
  return days < 2 ? '1 day' : `${Math.floor(days)} days`;
}

export function serverProblemSays(problem: ServerProblem): string {
  switch (problem.code) {
    case 'database_unusable':
      return problem.detail ?? `the database is ${problem.state}`;
    case 'disk_full':
      return problem.detail ?? 'PostgreSQL can write no more; new work is refused';
    case 'connections_low': {
      const counted = problem.limit > 0 ? `${problem.used} of ${problem.limit} connections are in use` : '';
      if (!problem.refused) return counted;
      return `the database refuses connections${counted && `; ${counted}`}; new work is refused`;
    }
    case 'disk_low':
      return `${formatSize(problem.free_bytes)} of ${formatSize(problem.total_bytes)} are free${problem.refused ? '; new work is refused' : ''}`;
    case 'disk_filling':
      return `full in ${formatDays(problem.days)} at the present rate: the database grows by ${formatSize(problem.bytes_per_day)} a day, and ${formatSize(problem.free_bytes)} are free`;
    case 'files_low':
      return `${problem.used} of ${problem.limit} file descriptors are in use`;
    case 'memory_low':
      return `${Math.round((100 * problem.used) / problem.limit)} % of the heap of ${formatSize(problem.limit)} are in use`;
    case 'certificate_ending':
      return `it ends at ${problem.ends_at}`;
    case 'certificate_expired':
      return `it ended at ${problem.ends_at}`;
    case 'backup_old':
      return problem.last_at === null
        ? `none has been taken; the first was due at ${problem.due_at}`
        : `the last one is of ${problem.last_at}; the next was due at ${problem.due_at}`;
    case 'tail_behind':
      return `this replica lacks the facts of the last ${problem.seconds} s`;
    case 'sweep_failing':
      return `${problem.sweep}: ${problem.error}`;
    case 'sweep_stalled':
      return problem.last_run_at === null
        ? `${problem.sweep} has not run yet`
        : `${problem.sweep} last ran at ${problem.last_run_at}`;
    case 'database_restored':
      return problem.remembers_until === null
        ? 'nothing is launched, released or judged'
        : `its rows end at ${problem.remembers_until}; nothing is launched, released or judged`;
    case 'clock_stepped':
      return `it jumped by ${problem.seconds.toFixed(0)} s; this replica follows it, and no machine is blamed for the step`;
  }
}
