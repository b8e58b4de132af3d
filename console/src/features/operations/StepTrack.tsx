/** The steps of an operation in order, with their durations. */

import type { Step } from '../../../../src/contract/operation.ts';
import { useTicking } from '../../api/server-clock.ts';
import { lookOf, stepLooks } from '../../ui/status/status-looks.ts';
import { humanize } from '../../ui/text.ts';
import { toneStyle } from '../../ui/theme.ts';
import { formatElapsed, formatPrecise, formatRoughly } from '../../ui/time/durations.ts';
import styles from './StepTrack.module.css';

export function StepTrack({ steps }: { steps: Step[] }) {
  return (
    <ol className={styles.track} aria-label="Steps">
      {steps.map((step) => (
        <StepItem key={step.step} step={step} />
      ))}
    </ol>
  );
}

function StepItem({ step }: { step: Step }) {
  const look = lookOf(stepLooks, step.status);
  const Icon = look.icon;
  return (
    <li className={styles.step} style={toneStyle(look.tone)} data-status={step.status} title={step.error?.message}>
      <span className={styles.icon}>
        <Icon size={14} stroke={2.25} aria-hidden />
      </span>
      <span className={styles.label}>{step.label || humanize(step.name)}</span>
      <span className={`${styles.time} tabular`}>
        <StepTime step={step} />
      </span>
    </li>
  );
}

function StepTime({ step }: { step: Step }) {
  const { status, started_at, finished_at, retry_at, tries, usual_seconds } = step;
  const words = useTicking((nowMs) => {
    const tryWords = tries > 1 ? ` · try ${tries}` : '';
    if (started_at && finished_at)
      return formatPrecise((Date.parse(finished_at) - Date.parse(started_at)) / 1000) + tryWords;
    if (status === 'waiting' && retry_at && Date.parse(retry_at) - nowMs >= 1000)
      return `retry in ${formatElapsed((Date.parse(retry_at) - nowMs) / 1000)}${tryWords}`;
    if (started_at) return formatElapsed((nowMs - Date.parse(started_at)) / 1000) + tryWords;
    if (status === 'skipped') return 'skipped';
    return usual_seconds ? `usual ${formatRoughly(usual_seconds)}` : '';
  });
  return words;
}
