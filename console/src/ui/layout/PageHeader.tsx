/** The head of every page: title, context and actions. */
import type { ReactNode } from 'react';
import styles from './PageHeader.module.css';

interface Props {
  title: ReactNode;
  /** The title of the browser tab. */
  tab: string;
  above?: ReactNode;
  beside?: ReactNode;
  below?: ReactNode;
  actions?: ReactNode;
}

export function PageHeader({ title, tab, above, beside, below, actions }: Props) {
  return (
    <header className={styles.header}>
      <title>{`${tab} · Slipway`}</title>
      <div className={styles.words}>
        {above && <div className={styles.above}>{above}</div>}
        <div className={styles.line}>
          <h1 className={styles.title}>{title}</h1>
          {beside}
        </div>
        {below && <div className={styles.below}>{below}</div>}
      </div>
      {actions && <div className={styles.actions}>{actions}</div>}
    </header>
  );
}
