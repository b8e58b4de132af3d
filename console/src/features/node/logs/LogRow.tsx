/** One line of a log. */
import { memo } from 'react';
import type { LogLine } from '../../../../../src/contract/node.ts';
import { formatAbsolute, timeOfDay } from '../../../ui/time/times.ts';
import styles from './Logs.module.css';
import { readableLine } from './log-lines.ts';

export const LogRow = memo(function LogRow({ line }: { line: LogLine }) {
  const { level, text, more } = readableLine(line.line);
  return (
    <div className={styles.line} data-level={level ?? undefined}>
      <time className={styles.time} dateTime={line.at} title={formatAbsolute(line.at)}>
        {timeOfDay(line.at)}
      </time>
      <span className={styles.stream} data-stream={line.stream} title={line.node_instance_id}>
        {line.stream}
      </span>
      <span className={styles.text} title={more ? line.line : undefined}>
        {level && <b>{level} </b>}
        {text}
        {more && <span className={styles.more}> {more}</span>}
      </span>
    </div>
  );
});
