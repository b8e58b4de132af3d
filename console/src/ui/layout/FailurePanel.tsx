/** Shows an error with its cause, the next step and the id to quote. */
import { Text } from '@mantine/core';
import { failureOf } from '../../api/failure.ts';
import { IconAlertOctagon } from '../icons.generated.ts';
import { ownerWords } from '../text.ts';
import { toneStyle } from '../theme.ts';
import { CopyId } from './CopyId.tsx';
import styles from './FailurePanel.module.css';

export function FailurePanel({ error }: { error: unknown }) {
  const failure = failureOf(error);
  return (
    <div className={styles.panel} style={toneStyle('bad')} role="alert">
      <IconAlertOctagon size={20} className={styles.icon} aria-hidden />
      <div className={styles.body}>
        <Text fw={600}>{failure.title}</Text>
        {failure.detail !== failure.title && <Text size="sm">{failure.detail}</Text>}
        {failure.errors.length > 0 && (
          <ul className={styles.errors}>
            {failure.errors.map(({ path, message }) => (
              <li key={path + message}>
                <code>{path || '/'}</code> {message}
              </li>
            ))}
          </ul>
        )}
        <Text size="sm" className={styles.remedy}>
          <b>What to do:</b> {failure.remedy}
        </Text>
        {failure.correlation_id && (
          <div className={styles.ids}>
            <span>
              {[failure.code, failure.owner_layer && ownerWords(failure.owner_layer)].filter(Boolean).join(' · ')}
            </span>
            <span>
              correlation id <CopyId id={failure.correlation_id} />
            </span>
          </div>
        )}
      </div>
    </div>
  );
}
