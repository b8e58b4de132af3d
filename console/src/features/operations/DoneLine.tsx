/** A succeeded operation in one line, with a link. */

import { Link } from '@tanstack/react-router';
import type { Operation } from '../../../../src/contract/operation.ts';
import { IconCheck } from '../../ui/icons.generated.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Took } from '../../ui/time/Took.tsx';
import styles from './DoneLine.module.css';
import { labelOf } from './progress.ts';

export const DoneLine = ({ operation }: { operation: Operation }) => (
  <div className={styles.line}>
    <IconCheck size={16} stroke={2.25} className={styles.icon} aria-hidden />
    <Link to="/operations/$id" params={{ id: operation.workflow_id }} className="quiet-link">
      {labelOf(operation.progress)}
    </Link>
    <span className={styles.dim}>
      {operation.steps.length} steps in <Took operation={operation} />
      {operation.finished_at && (
        <>
          , <Ago at={operation.finished_at} />
        </>
      )}
    </span>
  </div>
);
