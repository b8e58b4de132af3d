/** Whether what is on the screen is the present: a small word while all is well, a sign nobody overlooks when it is not. */
import { IconPlugConnectedX } from '@tabler/icons-react';
import { useStreamState } from '../live/live.ts';
import type { StreamState } from '../live/stream.ts';
import { type Tone, toneStyle } from '../theme.ts';
import styles from './StreamSign.module.css';

const words: Record<StreamState, { tone: Tone; text: string; means: string }> = {
  connecting: { tone: 'idle', text: 'Connecting', means: 'The live stream is being opened.' },
  live: { tone: 'ok', text: 'Live', means: 'Every change arrives by itself.' },
  stale: { tone: 'warn', text: 'Reconnecting', means: 'The stream is broken; what you see may be out of date.' },
  paused: { tone: 'idle', text: 'Paused', means: 'Paused while this tab was out of sight.' },
};

export function StreamSign() {
  const { tone, text, means } = words[useStreamState()];
  return (
    <span className={styles.sign} style={toneStyle(tone)} title={means}>
      <span className={styles.dot} aria-hidden />
      {text}
    </span>
  );
}

/** Floats above the page, so that nothing moves when the stream breaks and when it is back. */
export function StaleSign() {
  const stale = useStreamState() === 'stale';
  return (
    <div role="status" className={styles.place}>
      {stale && (
        <div className={styles.stale} style={toneStyle('warn')}>
          <IconPlugConnectedX size={18} aria-hidden />
          <span>
            <b>The live stream is stale.</b> Reconnecting; what you see may be out of date.
          </span>
        </div>
      )}
    </div>
  );
}
