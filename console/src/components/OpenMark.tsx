/** How much is open at a place, beside the way to it. Takes the place of `otherwise`, so that nothing moves when it comes and goes. */
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { findingsQuery } from '../api/findings.ts';
import { residueQuery } from '../api/residue.ts';
import { toneStyle } from '../theme.ts';
import { openCount } from '../words/findings.ts';
import styles from './HeldSign.module.css';

const open = { status: 'open' };

const Mark = ({ count, otherwise }: { count: string | null; otherwise: ReactNode }) =>
  count === null ? (
    otherwise
  ) : (
    <span className={styles.mark} style={toneStyle('warn')}>
      {count}
    </span>
  );

export const ResidueMark = ({ otherwise }: { otherwise: ReactNode }) => (
  <Mark count={openCount(useInfiniteQuery(residueQuery(open)).data?.pages[0])} otherwise={otherwise} />
);

export const DriftMark = ({ otherwise }: { otherwise: ReactNode }) => (
  <Mark count={openCount(useInfiniteQuery(findingsQuery(open)).data?.pages[0])} otherwise={otherwise} />
);
