/** A status as a pill with icon, word and tone. */

import { toneStyle } from '../theme.ts';
import styles from './StatusBadge.module.css';
import type { Look } from './status-looks.ts';

interface Props {
  look: Look;
  status: string;
  /** One sentence, shown on hover. */
  means?: string;
  large?: boolean;
}

export function StatusBadge({ look, status, means, large }: Props) {
  const Icon = look.icon;
  return (
    <span
      className={styles.badge}
      style={toneStyle(look.tone)}
      data-badge={status}
      data-solid={look.isSolid || undefined}
      data-large={large || undefined}
      title={means}
    >
      <Icon size={large ? 16 : 13} stroke={2.25} aria-hidden />
      {status.replaceAll('_', ' ')}
    </span>
  );
}
