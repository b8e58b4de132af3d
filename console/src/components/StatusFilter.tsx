/** Counts by status that are also the filter. Several may be chosen; none means all. */
import { UnstyledButton } from '@mantine/core';
import type { Look } from '../status-looks.ts';
import { toneStyle } from '../theme.ts';
import styles from './StatusFilter.module.css';

interface Props<Status extends string> {
  label: string;
  looks: Record<Status, Look>;
  /** A status that nothing has is not offered, unless it is chosen or among `always`. */
  counts: Partial<Record<Status, number>>;
  always?: readonly Status[];
  chosen: ReadonlySet<Status>;
  onChange: (chosen: Set<Status>) => void;
}

export function StatusFilter<Status extends string>({ label, looks, counts, always, chosen, onChange }: Props<Status>) {
  const names = (Object.keys(looks) as Status[]).filter(
    (status) => counts[status] !== undefined || chosen.has(status) || always?.includes(status),
  );
  const toggle = (status: Status) => {
    const next = new Set(chosen);
    if (!next.delete(status)) next.add(status);
    onChange(next);
  };
  return (
    <fieldset className={styles.filter} aria-label={label}>
      {names.map((status) => {
        const { icon: Icon, tone } = looks[status];
        return (
          <UnstyledButton
            key={status}
            className={styles.status}
            style={toneStyle(tone)}
            aria-pressed={chosen.has(status)}
            onClick={() => toggle(status)}
          >
            <Icon size={14} stroke={2.25} className={styles.icon} aria-hidden />
            {status.replaceAll('_', ' ')}
            {counts[status] !== undefined && <span className={`${styles.count} tabular`}>{counts[status]}</span>}
          </UnstyledButton>
        );
      })}
    </fieldset>
  );
}
