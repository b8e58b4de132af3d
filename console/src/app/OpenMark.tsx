/**
 * Badges with the number of open items beside a navigation link. A badge takes the place of the
 * fallback, so nothing moves.
 */

import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { findingsQuery } from '../api/queries/findings.ts';
import { residueQuery } from '../api/queries/residue.ts';
import { attentionMark, countOf } from '../features/attention/concerns.ts';
import { useAttention } from '../features/attention/use-attention.ts';
import { openCount } from '../features/drift/words.ts';
import styles from '../features/supervision/HeldVerdicts.module.css';
import { IconBell } from '../ui/icons.generated.ts';
import { type Tone, toneStyle } from '../ui/theme.ts';

const open = { status: 'open' };

interface MarkProps {
  count: string | null;
  fallback: ReactNode;
  tone?: Tone;
}

const Mark = ({ count, fallback, tone = 'warn' }: MarkProps) =>
  count === null ? (
    fallback
  ) : (
    <span className={styles.mark} style={toneStyle(tone)}>
      {count}
    </span>
  );

export const ResidueMark = ({ fallback }: { fallback: ReactNode }) => (
  <Mark count={openCount(useInfiniteQuery(residueQuery(open)).data?.pages[0])} fallback={fallback} />
);

export const DriftMark = ({ fallback }: { fallback: ReactNode }) => (
  <Mark count={openCount(useInfiniteQuery(findingsQuery(open)).data?.pages[0])} fallback={fallback} />
);

function useAttentionCount(): string | null {
  const { sections, isAll, error } = useAttention();
  return attentionMark(countOf(sections), isAll, error === null);
}

export const AttentionMark = ({ fallback }: { fallback: ReactNode }) => (
  <Mark count={useAttentionCount()} fallback={fallback} tone="bad" />
);

/** For the narrow header, which hides the navigation. */
export function AttentionLink() {
  const count = useAttentionCount();
  return (
    count && (
      <Link to="/attention" className={styles.mark} style={toneStyle('bad')} aria-label={`Attention: ${count}`}>
        <IconBell size={13} aria-hidden /> {count}
      </Link>
    )
  );
}
