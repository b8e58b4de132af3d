/**
 * Takes backups on a schedule. The next backup is due `every_seconds` after the newest one in the
 * place of the backups, so a restart takes none too early.
 */
import { readNewestBackup } from '../backup/read-backup.ts';
import { takeBackup } from '../backup/take-backup.ts';
import { type Clock, moment, pause } from '../base/clock.ts';
import type { KeyRing } from '../base/credentials/key-ring.ts';
import type { BackupSchedule } from '../base/settings/flag-values.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { BackupFact } from '../lifecycle/findings/server-problems.ts';
import { runInBackupTurn } from '../store/backup/backup-turn.ts';

export interface ScheduledBackups {
  every_seconds: number;
  /** Seconds since the newest backup was taken, or since the schedule began if there is none. */
  ageSeconds(): number;
  state(): BackupFact;
  start(): void;
  stop(): Promise<void>;
}

interface ScheduleOptions {
  schedule: BackupSchedule;
  /** The URL of the database, as the owner of its tables. */
  url: string;
  installation_id: string;
  key_ring: KeyRing;
  clock: Clock;
  /** After a restore, backups of the older rows would displace those of the newer ones. */
  isPaused?(): boolean;
  log: Pick<Log, 'info' | 'error'>;
}

const maxRetryMs = 15 * 60_000;
/** The pause before the next check while another replica takes a backup. */
const turnRetryMs = 60_000;

export function scheduleBackups({
  schedule,
  clock,
  log,
  isPaused = () => false,
  ...source
}: ScheduleOptions): ScheduledBackups {
  const { every_seconds, ...place } = schedule;
  const everyMs = every_seconds * 1000;
  const stopping = new AbortController();
  const beganMs = clock.nowMs();
  let newestMs: number | null = null;
  let isFailing = false;
  const dueMs = () => (newestMs === null ? beganMs : newestMs + everyMs);

  async function takeIfDue(): Promise<void> {
    const startedMs = clock.nowMs();
    const newest = await readNewestBackup(schedule, { installation_id: source.installation_id, nowMs: startedMs });
    newestMs = newest?.getTime() ?? null;
    if (newest && clock.nowMs() < dueMs()) return;
    const { deleted, ...taken } = await takeBackup({ ...source, ...place, signal: stopping.signal });
    // `taken_at` is the time of the database, whose clock may be ahead.
    newestMs = startedMs;
    log.info({ ...taken, deleted: deleted.length }, 'backup taken');
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      let waitMs = Math.min(maxRetryMs, everyMs);
      try {
        // Replicas may share the place. The next one in turn finds the backup of the last one.
        const hadTurn = !isPaused() && (await runInBackupTurn(source.url, takeIfDue));
        isFailing = false;
        waitMs = hadTurn ? Math.max(0, dueMs() - clock.nowMs()) : Math.min(turnRetryMs, everyMs);
      } catch (error) {
        isFailing = true;
        if (!stopping.signal.aborted) log.error({ error, to: schedule.to }, 'the backup failed; trying again');
      }
      await pause(clock, waitMs, stopping.signal);
    }
  }

  let running = Promise.resolve();
  return {
    every_seconds,
    ageSeconds: () => Math.max(0, clock.nowMs() - (newestMs ?? beganMs)) / 1000,
    state: () => ({
      last_at: newestMs === null ? null : moment(newestMs),
      due_at: moment(dueMs()),
      every_seconds,
      is_failing: isFailing,
    }),
    start() {
      running = run();
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
