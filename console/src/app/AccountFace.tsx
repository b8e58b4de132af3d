/** Shows who is signed in. As the target of the menu it also gets Mantine's class names. */
import { UnstyledButton } from '@mantine/core';
import type { ComponentProps } from 'react';
import type { Session } from '../../../src/contract/security/token.ts';
import { IconSelector } from '../ui/icons.generated.ts';
import styles from './Account.module.css';

export const AccountFace = ({
  session,
  className = '',
  ...button
}: { session: Session } & ComponentProps<'button'>) => (
  <UnstyledButton {...button} className={`${styles.account} ${className}`}>
    <span className={styles.initial} aria-hidden>
      {session.name.charAt(0).toUpperCase()}
    </span>
    <span className={styles.who}>
      <span className={styles.name}>{session.name}</span>
      <span className={styles.role}>
        {session.role}
        {session.tenant && ` · ${session.tenant}`}
      </span>
    </span>
    <IconSelector size={16} aria-hidden />
  </UnstyledButton>
);
