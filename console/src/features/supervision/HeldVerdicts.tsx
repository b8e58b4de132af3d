/**
 * Shows that verdicts are held: a count in the navigation of every page, a tag on each machine, and
 * a banner above the fleet.
 */

import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Held } from '../../../../src/contract/node.ts';
import { useBrake } from '../../api/queries/supervision.ts';
import { IconPlayerPause } from '../../ui/icons.generated.ts';
import { Banner } from '../../ui/layout/Banner.tsx';
import { toneStyle } from '../../ui/theme.ts';
import styles from './HeldVerdicts.module.css';
import { heldCount, heldHeadline, isOpenHold } from './words.ts';

/** The count takes the place of the fallback, so that nothing moves. */
export function HeldMark({ fallback }: { fallback: ReactNode }) {
  const brake = useBrake();
  const count = brake ? heldCount(brake) : null;
  if (count === null) return fallback;
  return (
    <span className={styles.mark} style={toneStyle('held')}>
      {count}
    </span>
  );
}

/** For the narrow header, which hides the navigation. */
export function HeldLink() {
  const brake = useBrake();
  const count = brake ? heldCount(brake) : null;
  return (
    count && (
      <Link to="/supervision" className={styles.mark} style={toneStyle('held')}>
        <IconPlayerPause size={13} aria-hidden /> {count}
      </Link>
    )
  );
}

/** Marks a machine whose verdict is held. */
export const HeldTag = ({ node: { held } }: { node: { held: Held | boolean | null } }) =>
  held && (
    <span
      className={styles.mark}
      style={toneStyle('held')}
      title={held === true ? undefined : `${held.rule} would make it ${held.to}: ${held.reason}`}
    >
      held
    </span>
  );

export function HeldBanner() {
  const brake = useBrake();
  if (!brake?.holding) return null;
  const reasons = brake.holds.filter(isOpenHold).map(({ reason }) => reason);
  return (
    <Banner icon={IconPlayerPause} tone="held">
      <b>{heldHeadline(brake)}.</b> {reasons.slice(0, 1).map((reason) => `${reason}. `)}
      {reasons.length > 1 && `And ${reasons.length - 1} more. `}
      <Link to="/supervision">See why, and resume</Link>
    </Banner>
  );
}
