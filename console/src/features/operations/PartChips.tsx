/** The parts of an operation as chips, each with its icon, name, count and state. */

import type { ProgressPart } from '../../../../src/contract/progress.ts';
import { IconCircleCheck, IconCircleDashed, IconCircleX, IconProgress } from '../../ui/icons.generated.ts';
import type { StatusIcon } from '../../ui/status/status-looks.ts';
import { toneStyle } from '../../ui/theme.ts';
import styles from './PartChips.module.css';
import { partWords } from './progress.ts';

const icons: Record<ProgressPart['tone'], StatusIcon> = {
  ok: IconCircleCheck,
  busy: IconProgress,
  bad: IconCircleX,
  idle: IconCircleDashed,
};

export function PartChips({ parts }: { parts: ProgressPart[] }) {
  return (
    <ul className={styles.chips} aria-label="Parts">
      {parts.map((part) => {
        // A newer server may send a tone that is not in the table.
        const Icon = icons[part.tone] ?? IconCircleDashed;
        return (
          <li
            key={`${part.kind}/${part.name}/${part.state}`}
            className={styles.chip}
            style={toneStyle(part.tone)}
            title={part.detail}
          >
            <Icon size={14} aria-hidden />
            <span>{partWords(part)}</span>
          </li>
        );
      })}
    </ul>
  );
}
