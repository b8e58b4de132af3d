/**
 * Shows whether the page is live: a small label always, and a banner while the stream is broken or
 * refused.
 */

import { useStreamState } from '../live/live.ts';
import type { StreamState } from '../live/stream.ts';
import { IconPlugConnectedX } from '../ui/icons.generated.ts';
import { type Tone, toneStyle } from '../ui/theme.ts';
import styles from './StreamStatus.module.css';

const words: Record<StreamState, { tone: Tone; text: string; means: string }> = {
  connecting: { tone: 'idle', text: 'Connecting', means: 'Opening the live stream.' },
  live: { tone: 'ok', text: 'Live', means: 'Changes appear as they happen.' },
  stale: { tone: 'warn', text: 'Reconnecting', means: 'The stream is broken. This page may be out of date.' },
  refused: {
    tone: 'warn',
    text: 'Not live',
    means: 'Too many live streams are open. Close other tabs of this console.',
  },
  paused: { tone: 'idle', text: 'Paused', means: 'Paused while this tab is hidden.' },
};

export function StreamStatus() {
  const { tone, text, means } = words[useStreamState()];
  return (
    <span className={styles.sign} style={toneStyle(tone)} title={means}>
      <span className={styles.dot} aria-hidden />
      {text}
    </span>
  );
}

const banners: Partial<Record<StreamState, { title: string; text: string }>> = {
  stale: { title: 'The live stream is broken.', text: 'Reconnecting. This page may be out of date.' },
  refused: {
    title: 'This page is not live.',
    text: 'Too many live streams are open. Close other tabs, or reload to see changes.',
  },
};

/** Floats above the page, so nothing moves when the stream breaks and recovers. */
export function StreamBanner() {
  const banner = banners[useStreamState()];
  return (
    <div role="status" className={styles.place}>
      {banner && (
        <div className={styles.stale} style={toneStyle('warn')}>
          <IconPlugConnectedX size={18} aria-hidden />
          <span>
            <b>{banner.title}</b> {banner.text}
          </span>
        </div>
      )}
    </div>
  );
}
