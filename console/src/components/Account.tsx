/** Who is signed in, with the few things that concern the person and not the fleet. */
import { Menu, UnstyledButton, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { IconBook2, IconKeyboard, IconLogout, IconMoon, IconSelector, IconSun } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import type { Session } from '../../../src/contract/token.ts';
import { call } from '../api/client.ts';
import { say } from '../notices.ts';
import styles from './Account.module.css';

export function Account({ session, onHelp }: { session: Session; onHelp: () => void }) {
  const { setColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme() === 'dark';
  const cache = useQueryClient();
  const navigate = useNavigate();

  const signOut = async () => {
    try {
      await call('session-delete', {});
    } catch (error) {
      say.failed('Signing out did not work', error);
      return;
    }
    await navigate({ to: '/sign-in' });
    cache.clear();
  };

  return (
    <Menu position="top-start" width="target" shadow="md">
      <Menu.Target>
        <UnstyledButton className={styles.account}>
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
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={isDark ? <IconSun size={16} /> : <IconMoon size={16} />}
          onClick={() => setColorScheme(isDark ? 'light' : 'dark')}
        >
          {isDark ? 'Light colours' : 'Dark colours'}
        </Menu.Item>
        <Menu.Item leftSection={<IconKeyboard size={16} />} onClick={onHelp}>
          Keyboard
        </Menu.Item>
        <Menu.Item leftSection={<IconBook2 size={16} />} component="a" href="/docs" target="_blank">
          API reference
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => void signOut()}>
          Sign out
        </Menu.Item>
        <Menu.Label>Slipway {session.version}</Menu.Label>
      </Menu.Dropdown>
    </Menu>
  );
}
