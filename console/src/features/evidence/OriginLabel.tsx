/** Marks a fact that a machine or an outside program states, so that it is not taken for what the control plane knows. */
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
