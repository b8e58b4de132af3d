/** Counts down to a deadline and past it. */
import { useTicking } from '../../api/server-clock.ts';
import { toneStyle } from '../theme.ts';
import styles from './Countdown.module.css';
import { formatElapsed } from './durations.ts';
import { formatAbsolute } from './times.ts';

interface Props {
  at: string;
  budget_seconds?: number | null;
}

/** Highlight the last fifth of a budget, or the last minute if the budget is unknown. */
const closeFraction = 0.2;
const closeSeconds = 60;

export function Countdown({ at, budget_seconds }: Props) {
  const left = useTicking((nowMs) => Math.ceil((Date.parse(at) - nowMs) / 1000));
  const isClose = left < (budget_seconds ? budget_seconds * closeFraction : closeSeconds);
  return (
    <time
      dateTime={at}
      title={formatAbsolute(at)}
      className={`tabular ${styles.countdown}`}
      style={toneStyle(left < 0 ? 'bad' : isClose ? 'warn' : 'idle')}
      data-close={isClose || undefined}
    >
      {left >= 0 ? formatElapsed(left) : `${formatElapsed(-left)} overdue`}
    </time>
  );
}
