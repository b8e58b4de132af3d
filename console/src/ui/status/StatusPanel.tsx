/** Explains a status: since when, why, and what happens next. */

import type { ReactNode } from 'react';
import type { BudgetSource } from '../../../../src/contract/node.ts';
import { IconGavel, IconHourglass } from '../icons.generated.ts';
import { Ago } from '../time/Ago.tsx';
import { formatRoughly } from '../time/durations.ts';
import styles from './StatusPanel.module.css';

interface Props {
  badge: ReactNode;
  since: string;
  means: ReactNode;
  because: ReactNode;
  next: ReactNode;
  /** Shown above the three cells. */
  notice?: ReactNode;
}

export const StatusPanel = ({ badge, since, means, because, next, notice }: Props) => (
  <section className={styles.because} aria-label="Status">
    {notice}
    <div className={styles.cell}>
      <div className={styles.name}>Status</div>
      <div className={styles.status}>
        {badge}
        <span className={styles.dim}>
          for <Ago at={since} asAge />
        </span>
      </div>
      <div className={styles.means}>{means}</div>
    </div>
    <div className={styles.cell}>
      <div className={styles.name}>
        <IconGavel size={14} aria-hidden /> Because
      </div>
      {because}
    </div>
    <div className={styles.cell}>
      <div className={styles.name}>
        <IconHourglass size={14} aria-hidden /> Next
      </div>
      {next}
    </div>
  </section>
);

const sourceWords: Record<BudgetSource, string> = {
  allocation: 'the allocation',
  learned: 'recorded boots',
  pool: 'the pool',
  class: 'the runtime class',
  default: 'the default',
};

interface Budget {
  budget_seconds: number | null;
  budget_source: BudgetSource | null;
}

export const BudgetLine = ({ budget_seconds, budget_source }: Budget) =>
  budget_seconds !== null && (
    <p className={styles.dim}>
      budget {formatRoughly(budget_seconds)}
      {budget_source && `, from ${sourceWords[budget_source]}`}
    </p>
  );
