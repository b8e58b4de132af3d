/** A titled surface. */
import { type ReactNode, useId } from 'react';
import styles from './Panel.module.css';

interface Props {
  title?: ReactNode;
  aside?: ReactNode;
  /** The content reaches the edges, as for tables and logs. */
  flush?: boolean;
  children: ReactNode;
}

export function Panel({ title, aside, flush, children }: Props) {
  const id = useId();
  return (
    <section className={styles.panel} aria-labelledby={title ? id : undefined}>
      {(title || aside) && (
        <div className={styles.head}>
          {title && (
            <h2 id={id} className={styles.title}>
              {title}
            </h2>
          )}
          {aside}
        </div>
      )}
      <div className={flush ? undefined : styles.body}>{children}</div>
    </section>
  );
}
