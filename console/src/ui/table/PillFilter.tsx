/** Buttons that filter a list, optionally with counts. The page decides what no choice shows. */
import { UnstyledButton } from '@mantine/core';
import type { StatusIcon } from '../status/status-looks.ts';
import { type Tone, toneStyle } from '../theme.ts';
import styles from './PillFilter.module.css';

interface Props<Name extends string> {
  label: string;
  looks: Record<Name, { icon: StatusIcon; tone: Tone; means?: string }>;
  /** A button without a count is hidden, unless it is chosen or in `always`. */
  counts?: Partial<Record<Name, number>>;
  always?: readonly Name[];
  chosen: ReadonlySet<Name>;
  onChange: (chosen: Set<Name>) => void;
}

export function PillFilter<Name extends string>({ label, looks, counts = {}, always, chosen, onChange }: Props<Name>) {
  const names = (Object.keys(looks) as Name[]).filter(
    (name) => counts[name] !== undefined || chosen.has(name) || always?.includes(name),
  );
  const toggle = (name: Name) => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    onChange(next);
  };
  return (
    <fieldset className={styles.filter} aria-label={label}>
      {names.map((name) => {
        const { icon: Icon, tone, means } = looks[name];
        return (
          <UnstyledButton
            key={name}
            className={styles.pill}
            style={toneStyle(tone)}
            aria-pressed={chosen.has(name)}
            title={means}
            onClick={() => toggle(name)}
          >
            <Icon size={14} stroke={2.25} className={styles.icon} aria-hidden />
            {name.replaceAll('_', ' ')}
            {counts[name] !== undefined && (
              <span className={`${styles.count} tabular`}>{counts[name].toLocaleString()}</span>
            )}
          </UnstyledButton>
        );
      })}
    </fieldset>
  );
}
