/** Counts down to a deadline and past it. */
import { useTicking } from '../../api/server-clock.ts';
import { toneStyle } from '../theme.ts';
import styles from './Countdown.module.css';
import { elapsed } from './durations.ts';
import { absolute } from './times.ts';

interface Props {
  at: string;
  budget_seconds?: number | null;
}

/** Highlight the last fifth of a budget. */
const closeFraction = 0.2;

export function Countdown({ at, budget_seconds }: Props) {
  const left = useTicking((nowMs) => Math.ceil((Date.parse(at) - nowMs) / 1000));
  const close = budget_seconds ? left < budget_seconds * closeFraction : left < 60;
  return (
    <time
      dateTime={at}
      title={absolute(at)}
      className={`tabular ${styles.countdown}`}
      style={toneStyle(left < 0 ? 'bad' : close ? 'warn' : 'idle')}
      data-close={close || undefined}
    >
      {left >= 0 ? elapsed(left) : `${elapsed(-left)} overdue`}
    </time>
  );
}
