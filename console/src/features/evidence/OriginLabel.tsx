/**
 * Marks facts that a machine or another program reported and the control plane did not verify.
 */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { originLabel, originMeans } from '../../../../src/lifecycle/explain/evidence-origins.ts';
import styles from './OriginLabel.module.css';

export function OriginLabel({ fact }: { fact: Pick<Evidence, 'origin' | 'layer' | 'actor'> }) {
  const label = originLabel(fact);
  if (label === null) return null;
  return (
    <span className={styles.label} title={`Not verified: ${originMeans[fact.origin]}.`}>
      {label}
    </span>
  );
}
