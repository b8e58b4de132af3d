/** A notice above a page that lasts as long as its cause. */
import type { ReactNode } from 'react';
import type { StatusIcon } from '../status/status-looks.ts';
import { type Tone, toneStyle } from '../theme.ts';
import styles from './Banner.module.css';

interface Props {
  icon: StatusIcon;
  tone: Tone;
  children: ReactNode;
}

export const Banner = ({ icon: Icon, tone, children }: Props) => (
  <div role="status" className={styles.banner} style={toneStyle(tone)}>
    <Icon size={18} aria-hidden />
    <span>{children}</span>
  </div>
);
