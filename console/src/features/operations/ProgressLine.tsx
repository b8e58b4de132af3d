/** Progress in a table cell: the bar and one line. */
import type { OperationError } from '../../../../src/contract/operation.ts';
import type { Progress } from '../../../../src/contract/progress.ts';
import { lookOf, operationLooks } from '../../ui/status/status-looks.ts';
import { toneStyle } from '../../ui/theme.ts';
import styles from './ProgressLine.module.css';
import { barPercent, hasEnded, labelOf, position } from './progress.ts';

interface Props {
  progress: Progress | null;
  error?: OperationError | null;
}

export function ProgressLine({ progress, error }: Props) {
  if (!progress) return null;
  const failed = error ?? progress.error;
  if (failed) return <span className={styles.failed}>{failed.message}</span>;
  if (hasEnded(progress)) return <span className={styles.ended}>{labelOf(progress)}</span>;
  const percent = barPercent(progress);
  const { failing } = progress;
  const words = [position(progress), labelOf(progress), failing && `failing: ${failing.message}`];
  return (
    <span className={styles.line} style={toneStyle(failing ? 'warn' : lookOf(operationLooks, progress.status).tone)}>
      <span className={styles.words}>{words.filter(Boolean).join(' · ')}</span>
      <span className={styles.bar} aria-hidden>
        <span className={styles.fill} style={{ width: `${percent ?? 0}%` }} />
      </span>
    </span>
  );
}
