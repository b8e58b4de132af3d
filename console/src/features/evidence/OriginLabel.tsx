/**
 * Marks facts that a machine or an outside program reports and the control plane has not verified.
 */
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { originMeans, voiceOf } from '../../../../src/lifecycle/explain/evidence-origins.ts';
import styles from './OriginLabel.module.css';

export function Voice({ fact }: { fact: Pick<Evidence, 'origin' | 'layer' | 'actor'> }) {
  const voice = voiceOf(fact);
  if (voice === null) return null;
  return (
    <span className={styles.voice} title={`Not verified: ${originMeans[fact.origin]}.`}>
      {voice}
    </span>
  );
}
