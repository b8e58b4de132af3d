/** Title, meaning and look of each shelf on Attention, and the page that lists all of it. */
import {
  IconActivityHeartbeat,
  IconAlertTriangle,
  IconGavel,
  IconHourglassHigh,
  IconLeaf,
  IconLock,
  IconPlayerPause,
  IconPower,
  IconRefresh,
  IconRefreshAlert,
  IconUserX,
  IconX,
} from '@tabler/icons-react';
import type { StatusIcon } from '../../ui/status/status-looks.ts';
import type { Tone } from '../../ui/theme.ts';
import type { ShelfName } from './concerns.ts';

interface ShelfLook {
  title: string;
  means: string;
  icon: StatusIcon;
  tone: Tone;
  /** The page that lists all of them. */
  all: { to: '/supervision' | '/allocations' | '/fleet' | '/residue' | '/drift'; search?: { status: string } };
}

export const shelfLooks: Record<ShelfName, ShelfLook> = {
  held: {
    title: 'Held by the brake',
    means: 'Too much turned bad at once, or we doubt our own hearing. Decide whether it is the machines or us.',
    icon: IconPlayerPause,
    tone: 'held',
    all: { to: '/supervision' },
  },
  rules: {
    title: 'Rules that cannot run',
    means: 'Nobody is judged by them until they run again.',
    icon: IconGavel,
    tone: 'bad',
    all: { to: '/supervision' },
  },
  given_up: {
    title: 'Releases that gave up',
    means: 'All quick tries failed. One more is made every hour, and none sooner unless somebody asks for it.',
    icon: IconRefreshAlert,
    tone: 'bad',
    all: { to: '/allocations', search: { status: 'release_failed' } },
  },
  silent: {
    title: 'Silent machines',
    means:
      'No heartbeat, and whoever is served by one may get no answer. Each may come back until its time ends; then it is given up.',
    icon: IconPower,
    tone: 'off',
    all: { to: '/fleet', search: { status: 'offline' } },
  },
  quarantined: {
    title: 'Set aside',
    means: 'They take no work and wait for somebody to look at them.',
    icon: IconLock,
    tone: 'held',
    all: { to: '/fleet', search: { status: 'quarantined' } },
  },
  failed: {
    title: 'Failed machines',
    means:
      'A verdict ended them. Those that were only late may come back until their window ends; the others are taken down.',
    icon: IconX,
    tone: 'bad',
    all: { to: '/fleet', search: { status: 'failed' } },
  },
  unserved: {
    title: 'Allocations that failed',
    means:
      'Nothing brings them back by itself, and whoever asked has no machine. Each stays here until it is retried or released.',
    icon: IconUserX,
    tone: 'bad',
    all: { to: '/allocations', search: { status: 'failed' } },
  },
  degraded: {
    title: 'Degraded for long',
    means: 'They serve, but badly, and did not get well by themselves. Read what each says of itself.',
    icon: IconActivityHeartbeat,
    tone: 'warn',
    all: { to: '/fleet', search: { status: 'degraded' } },
  },
  taken_down: {
    title: 'Take-downs that fail',
    means: 'Each is tried again by itself; after its last try the machine is set aside.',
    icon: IconRefreshAlert,
    tone: 'leaving',
    all: { to: '/fleet', search: { status: 'cleaning' } },
  },
  residue: {
    title: 'Left behind',
    means: 'Still upstream without a live owner, and perhaps on the bill.',
    icon: IconLeaf,
    tone: 'warn',
    all: { to: '/residue' },
  },
  slower: {
    title: 'Slower boots',
    means:
      'They still come, and take longer than they used to. Find out why, or give them more time, before their budget gives them up.',
    icon: IconHourglassHigh,
    tone: 'warn',
    all: { to: '/drift' },
  },
  drift: {
    title: 'Findings',
    means: 'What we hold and what is there disagree, or something fails again and again.',
    icon: IconAlertTriangle,
    tone: 'warn',
    all: { to: '/drift' },
  },
  retried: {
    title: 'Releases that are tried again',
    means: 'The next try comes by itself; it can be had sooner.',
    icon: IconRefresh,
    tone: 'leaving',
    all: { to: '/allocations', search: { status: 'release_failed' } },
  },
};
