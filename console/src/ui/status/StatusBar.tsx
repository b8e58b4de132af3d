/** Shows the statuses of a group as a thin bar. The numbers are shown elsewhere. */
import { type NodeStatus, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import { toneStyle } from '../theme.ts';
import styles from './StatusBar.module.css';
import { lookOf, nodeLooks } from './status-looks.ts';

interface Props {
  counts: Partial<Record<NodeStatus, number>>;
  total: number;
}

export function StatusBar({ counts, total }: Props) {
  return (
    <span className={styles.bar} aria-hidden>
      {nodeStatusNames
        .filter((status) => counts[status])
        .map((status) => (
          <span
            key={status}
            className={styles.part}
            style={{ ...toneStyle(lookOf(nodeLooks, status).tone), flexGrow: (counts[status] ?? 0) / total }}
            title={`${counts[status]} ${status}`}
          />
        ))}
    </span>
  );
}
