/**
 * The account menu: colours, keyboard help, API reference, sign out. Loads when it is first opened.
 */
import { Menu, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import type { Session } from '../../../src/contract/security/token.ts';
import { call } from '../api/client.ts';
import { IconBook2, IconKeyboard, IconLogout, IconMoon, IconSun } from '../ui/icons.generated.ts';
import { notify } from '../ui/notices.ts';
import { AccountFace } from './AccountFace.tsx';

export function AccountMenu({ session, onHelp }: { session: Session; onHelp: () => void }) {
  const { setColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme() === 'dark';
  const cache = useQueryClient();
  const navigate = useNavigate();

  const signOut = async () => {
    try {
      await call('session-delete', {});
    } catch (error) {
      notify.failed('Sign-out failed', error);
      return;
    }
    await navigate({ to: '/sign-in' });
    cache.clear();
  };

  return (
    <Menu position="top-start" width="target" shadow="md" defaultOpened>
      <Menu.Target>
        <AccountFace session={session} />
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
