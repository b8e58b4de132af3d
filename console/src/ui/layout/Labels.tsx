/** Labels as key=value. */
import styles from './Labels.module.css';

export function Labels({ labels }: { labels: Record<string, string> }) {
  return (
    <span className={styles.labels}>
      {Object.entries(labels).map(([key, value]) => (
        <code key={key} className={styles.label}>
          {key}={value}
        </code>
      ))}
    </span>
  );
}
