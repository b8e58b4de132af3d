/** A list of names and values. Unknown values are left out. */
import { Fragment, type ReactNode } from 'react';
import styles from './Facts.module.css';

/** Setting names are long; allow a line break after each underscore. */
const breakable = (name: string): ReactNode =>
  name.split(/(?<=_)/).map((part, at) => (
    <Fragment key={part}>
      {at > 0 && <wbr />}
      {part}
    </Fragment>
  ));

export type Fact = [name: string, value: ReactNode];

export function Facts({ facts }: { facts: Fact[] }) {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
  return (
    <dl className={styles.facts}>
      {known.map(([name, value]) => (
        <div key={name} className={styles.fact}>
          <dt>{breakable(name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
