/**
 * Changes the log level of every replica for a while. A fact carries the change, so that all
 * replicas apply it, whichever one was called. A replica that restarts has its usual level again.
 */
import { type Clock, iso, moment, now, secondsLater } from '../../base/clock.ts';
import type { CorrelationId } from '../../base/ids.ts';
import type { Log } from '../../base/telemetry/log.ts';
import type { Actor, Evidence } from '../../contract/evidence/evidence.ts';
import { type LogLevel, type LogLevelState, logLevels } from '../../contract/fleet/server-status.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Queryable } from '../../store/pg/database.ts';

export interface LogLevelControl {
  /** Applies a change that any replica recorded. */
  observe(fact: Pick<Evidence, 'kind' | 'data'>): void;
  state(): LogLevelState;
  stop(): void;
}

export interface LevelChange {
  level: LogLevel;
  until: Date;
}

const kind = 'log_level.changed';

export const recordLevelChange = (
  db: Queryable,
  { level, until }: LevelChange,
  by: { actor: Actor; correlation_id: CorrelationId; at: Date },
): Promise<void> =>
  recordEvidence(db, [
    {
      ...by,
      layer: 'operator',
      kind,
      summary: `the log level is ${level} until ${until.toISOString()}`,
      data: { level, until: until.toISOString() },
    },
  ]);

const isLevel = (value: unknown): value is LogLevel => logLevels.some((level) => level === value);

export function controlLogLevel(log: Pick<Log, 'level' | 'warn'>, clock: Clock): LogLevelControl {
  const usual = log.level;
  let until: Date | null = null;
  let cancel: () => void = () => {};
  const restoreUsual = () => {
    log.warn({ log_level: usual }, 'the log level is as usual again');
    log.level = usual;
    until = null;
  };
  return {
    observe({ kind: observed, data }) {
      const { level, until: end } = data as { level?: unknown; until?: unknown };
      if (observed !== kind || !isLevel(level) || typeof end !== 'string') return;
      until = moment(Date.parse(end));
      // Log before the change: a higher level would drop this line.
      log.warn({ log_level: level, until }, 'the log level is changed');
      log.level = level;
      cancel();
      cancel = clock.after(Math.max(0, until.getTime() - clock.nowMs()), restoreUsual);
    },
    state: () => ({ level: log.level, usual, until: iso(until) }),
    stop: () => cancel(),
  };
}

/** Long enough to find a problem, and short enough not to fill the disk. */
const defaultSeconds = 900;

export const toLevelChange = (
  { level, for_seconds = defaultSeconds }: { level: LogLevel; for_seconds?: number | undefined },
  clock: Clock,
): LevelChange => ({ level, until: secondsLater(now(clock), for_seconds) });
