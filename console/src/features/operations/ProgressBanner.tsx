/**
 * Shows the progress of an operation: step, label, usual duration, elapsed time, a bar that never
 * goes back, the steps, the parts and the error.
 */

import type { Step } from '../../../../src/contract/operation.ts';
import type { Progress } from '../../../../src/contract/progress.ts';
import { arrivedAtMs } from '../../api/cache/received.ts';
import { useTicking } from '../../api/server-clock.ts';
import { lookOf, operationLooks } from '../../ui/status/status-looks.ts';
import { humanize, ownerWords } from '../../ui/text.ts';
import { toneStyle } from '../../ui/theme.ts';
import { formatElapsed } from '../../ui/time/durations.ts';
import { PartChips } from './PartChips.tsx';
import styles from './ProgressBanner.module.css';
import { barPercent, hasEnded, labelOf, outlook, position, usualDuration } from './progress.ts';
import { StepTrack } from './StepTrack.tsx';

interface Props {
  progress: Progress;
  steps?: Step[];
}

export function ProgressBanner({ progress, steps }: Props) {
  const ended = hasEnded(progress);
  const sinceReceipt = useTicking((nowMs) => (ended ? 0 : Math.floor((nowMs - arrivedAtMs(progress)) / 1000)));
  const percent = barPercent(progress);
  const look = lookOf(operationLooks, progress.status);
  const Icon = look.icon;
  const usually = ended ? null : usualDuration(progress);
  const outlookWords = outlook(progress, sinceReceipt);
  const time = formatElapsed(progress.elapsed_seconds + Math.max(0, sinceReceipt));
  const stepPosition = position(progress);
  const message = progress.failing?.message ?? progress.message;
  const isTroubled = !ended && (progress.stalled || progress.failing !== undefined);
  const isMoving = !ended && progress.failing === undefined;

  return (
    <section
      className={styles.banner}
      style={toneStyle(isTroubled ? 'warn' : look.tone)}
      aria-label={`Progress of ${humanize(progress.kind ?? 'operation')}`}
      data-workflow={progress.workflow_id}
    >
      <div className={styles.head}>
        <Icon
          size={20}
          className={styles.icon}
          data-turning={(progress.status === 'running' && isMoving) || undefined}
          aria-hidden
        />
        <div className={styles.words}>
          <div className={styles.headline}>
            {stepPosition && <span>{stepPosition} · </span>}
            <strong>{labelOf(progress)}</strong>
            {usually && <span> ({usually})</span>}
            <span>
              {' · '}
              <span className="tabular">{time}</span>
            </span>
          </div>
          {message && message !== progress.error?.message && <div className={styles.message}>{message}</div>}
        </div>
        {outlookWords.length > 0 && <div className={styles.outlook}>{outlookWords.join(' · ')}</div>}
      </div>
      <div
        className={styles.bar}
        role="progressbar"
        aria-label={labelOf(progress)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent === null ? undefined : Math.round(percent)}
        data-unknown={percent === null || undefined}
        data-running={(isMoving && percent !== null) || undefined}
      >
        <div className={styles.fill} style={{ width: `${percent ?? 30}%` }} />
      </div>
      {steps && steps.length > 0 && <StepTrack steps={steps} />}
      {progress.parts && progress.parts.length > 0 && <PartChips parts={progress.parts} />}
      {progress.error && (
        <div className={styles.error}>
          <b>{humanize(progress.error.code)}</b>
          {progress.error.step && <> in {humanize(progress.error.step).toLowerCase()}</>}
          {` (${ownerWords(progress.error.owner_layer)}): `}
          {progress.error.message}
        </div>
      )}
    </section>
  );
}
