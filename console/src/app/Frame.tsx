/** Surrounds every page behind the sign-in: navigation, account, stream state and global keys. */

import { AppShell, Burger, Group, NavLink } from '@mantine/core';
import { useDisclosure, useMediaQuery } from '@mantine/hooks';
import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useEffect, useRef } from 'react';
import { glossary } from '../../../src/lifecycle/glossary.ts';
import { sessionQuery, useSession } from '../api/session.ts';
import { FindBox } from '../features/find/FindBox.tsx';
import { RestorationBanner } from '../features/restoration/RestorationBanner.tsx';
import { HeldLink, HeldMark } from '../features/supervision/HeldVerdicts.tsx';
import { startLive } from '../live/live.ts';
import { focusFind, useKeyboard } from '../ui/keyboard.ts';
import { Brand } from '../ui/layout/Brand.tsx';
import { Account } from './Account.tsx';
import styles from './Frame.module.css';
import { KeyboardHelp } from './lazy-dialog.ts';
import { type Place, places } from './navigation.ts';
import { AttentionLink, AttentionMark, DriftMark, ResidueMark } from './OpenMark.tsx';
import { StreamBanner, StreamStatus } from './StreamStatus.tsx';

const renderChord = (key: string) => (
  <kbd className={styles.chord} aria-hidden>
    g {key}
  </kbd>
);

/** Badges beside a navigation link, such as the number of open findings. */
const marks: Partial<Record<Place['to'], typeof HeldMark>> = {
  '/attention': AttentionMark,
  '/supervision': HeldMark,
  '/residue': ResidueMark,
  '/drift': DriftMark,
};

function PlaceMark({ to, fallback }: { to: Place['to']; fallback: ReactNode }) {
  const Mark = marks[to];
  return Mark ? <Mark fallback={fallback} /> : fallback;
}

/** Escape in a menu or a dialog closes only that. */
const hasOwnEscape = (target: EventTarget): boolean =>
  target instanceof Element && target.closest('[role="menu"], [role="dialog"]') !== null;

export function Frame() {
  const session = useSession();
  const navigate = useNavigate();
  const cache = useQueryClient();
  const { pathname } = useLocation();
  const [opened, menu] = useDisclosure(false);
  const isNarrow = useMediaQuery('(max-width: 48em)');
  const [isHelpOpen, help] = useDisclosure(false);

  // Reading an ended session redirects to the sign-in page.
  useEffect(() => startLive(cache, () => void cache.invalidateQueries(sessionQuery)), [cache]);

  const findAnyId = () => {
    if (!focusFind()) void navigate({ to: '/find' });
  };
  const burger = useRef<HTMLButtonElement>(null);
  const closeOnEscape = (event: KeyboardEvent) => {
    if (!opened || event.key !== 'Escape' || event.defaultPrevented || hasOwnEscape(event.target)) return;
    menu.close();
    burger.current?.focus();
  };
  const allowedPlaces = places.filter((place) => place.isFor?.(session) ?? true);
  useKeyboard({
    onGo: (letter) => {
      if (letter === 'i') return findAnyId();
      const place = allowedPlaces.find(({ key }) => key === letter);
      if (place) void navigate({ to: place.to });
    },
    onHelp: help.open,
    onSearchElsewhere: findAnyId,
  });

  return (
    <AppShell
      layout="alt"
      navbar={{ width: 'var(--frame-width)', breakpoint: 'sm', collapsed: { mobile: !opened } }}
      header={{ height: { base: 52, sm: 0 } }}
      padding={0}
      onKeyDown={closeOnEscape}
    >
      <a href="#page" className={styles.skip}>
        Skip to content
      </a>
      <AppShell.Header hiddenFrom="sm" className={styles.header} withBorder={false}>
        <Group h="100%" px="md" gap="sm" wrap="nowrap">
          <Burger
            ref={burger}
            opened={opened}
            onClick={menu.toggle}
            size="sm"
            aria-label="Navigation"
            aria-expanded={opened}
          />
          <Brand />
          <span className={styles.spread} />
          <AttentionLink />
          <HeldLink />
          <StreamStatus />
        </Group>
      </AppShell.Header>

      {/* Inert while hidden, which also takes it out of the tab order. */}
      <AppShell.Navbar className={styles.navbar} withBorder={false} inert={isNarrow && !opened}>
        <Group className={styles.top} justify="space-between" wrap="nowrap">
          <Brand />
          <Burger hiddenFrom="sm" opened={opened} onClick={menu.toggle} size="sm" aria-label="Close navigation" />
        </Group>
        <FindBox onLeave={menu.close} />
        <AppShell.Section grow className={styles.places}>
          <nav aria-label="Places">
            {allowedPlaces.map(({ to, covers, label, word, icon: Icon, key }) => (
              <NavLink
                key={to}
                component={Link}
                to={to}
                label={label}
                title={glossary[word].means}
                leftSection={<Icon size={18} stroke={1.75} aria-hidden />}
                rightSection={<PlaceMark to={to} fallback={renderChord(key)} />}
                active={covers.some((path) => pathname.startsWith(path))}
                className={styles.place}
                onClick={menu.close}
              />
            ))}
          </nav>
        </AppShell.Section>
        <AppShell.Section className={styles.bottom}>
          <div className={styles.live}>
            <StreamStatus />
          </div>
          <Account session={session} onHelp={help.open} />
        </AppShell.Section>
      </AppShell.Navbar>

      <AppShell.Main className={styles.main}>
        <div id="page" className={styles.page} tabIndex={-1}>
          <RestorationBanner />
          <Outlet />
        </div>
      </AppShell.Main>
      <StreamBanner />
      <KeyboardHelp opened={isHelpOpen} onClose={help.close} places={allowedPlaces} />
    </AppShell>
  );
}
