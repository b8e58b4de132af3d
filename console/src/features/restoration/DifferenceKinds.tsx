/** How many machines differ from their restored rows, by kind, with the meaning and the remedy. */
import {
  differenceCatalogue,
  type RestoredDifferenceKind,
  restoredDifferenceKinds,
} from '../../../../src/lifecycle/findings/restored-differences.ts';
import styles from './DifferenceKinds.module.css';

export const DifferenceKinds = ({ counts }: { counts: Record<RestoredDifferenceKind, number> }) => (
  <ul className={styles.kinds}>
    {restoredDifferenceKinds
      .filter((kind) => counts[kind] > 0)
      .map((kind) => {
        const { title, means, remedy } = differenceCatalogue[kind];
        return (
          <li key={kind} className={styles.kind}>
            <span className={`${styles.count} tabular`}>{counts[kind].toLocaleString()}</span>
            <div>
              <h3 className={styles.title}>{title}</h3>
              <p>{means}</p>
              <p className={styles.dim}>{remedy}</p>
            </div>
          </li>
        );
      })}
  </ul>
);
