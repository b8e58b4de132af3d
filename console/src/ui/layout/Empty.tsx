/**
 * Shown where a page or panel has no content: an icon, a title and, optionally, an explanation or a
 * button.
 */
import { Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { StatusIcon } from '../status/status-looks.ts';
import { type Tone, toneStyle } from '../theme.ts';
import styles from './Empty.module.css';

interface Props {
  icon: StatusIcon;
  title: string;
  tone?: Tone;
  children?: ReactNode;
}

export function Empty({ icon: Icon, title, tone = 'idle', children }: Props) {
  return (
    <Stack className={styles.empty} align="center" gap="xs">
      <span className={styles.icon} style={toneStyle(tone)}>
        <Icon size={26} stroke={1.5} aria-hidden />
      </span>
      <Text fw={600} fz="lg" component="h2">
        {title}
      </Text>
      <div className={styles.body}>{children}</div>
    </Stack>
  );
}
