/** Title, meaning and look of each section on Attention, and the page that lists all its items. */
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
  IconServer,
  IconUserX,
  IconX,
} from '../../ui/icons.generated.ts';
import type { StatusIcon } from '../../ui/status/status-looks.ts';
import type { Tone } from '../../ui/theme.ts';
import type { SectionName } from './concerns.ts';

interface SectionLook {
  title: string;
  means: string;
  icon: StatusIcon;
  tone: Tone;
  /** The page that lists all items of the section. */
  all: {
    to: '/settings' | '/supervision' | '/allocations' | '/fleet' | '/residue' | '/drift';
    search?: { status: string };
  };
}

export const sectionLooks: Record<SectionName, SectionLook> = {
  server: {
    title: 'This server',
    means: 'The replica that answers has these problems of its own. What you see below may be late or missing.',
    icon: IconServer,
    tone: 'bad',
    all: { to: '/settings' },
  },
  held: {
    title: 'Held by the brake',
    means: 'Too many machines failed at once, or the control plane may have missed heartbeats. Decide which.',
    icon: IconPlayerPause,
    tone: 'held',
    all: { to: '/supervision' },
  },
  sweeps: {
    title: 'Sweeps that fail',
    means: 'These rules, watchers and jobs failed in their last run. Until they run, their work is not done.',
    icon: IconGavel,
    tone: 'bad',
    all: { to: '/supervision' },
  },
  given_up: {
    title: 'Releases that gave up',
    means: 'All quick tries failed. Slipway now retries hourly, unless you retry sooner.',
    icon: IconRefreshAlert,
    tone: 'bad',
    all: { to: '/allocations', search: { status: 'release_failed' } },
  },
  silent: {
    title: 'Silent machines',
    means: 'These machines send no heartbeat. Allocations on them may get no answer. Each is given up at its deadline.',
    icon: IconPower,
    tone: 'off',
    all: { to: '/fleet', search: { status: 'offline' } },
  },
  quarantined: {
    title: 'Quarantined machines',
    means: 'These machines take no work until you decide about them.',
    icon: IconLock,
    tone: 'held',
    all: { to: '/fleet', search: { status: 'quarantined' } },
  },
  failed: {
    title: 'Failed machines',
    means: 'A rule gave these machines up. A late machine can still return before it is taken down.',
    icon: IconX,
    tone: 'bad',
    all: { to: '/fleet', search: { status: 'failed' } },
  },
  unserved: {
    title: 'Allocations that failed',
    means: 'These allocations have no machine and do not recover by themselves. Retry or release each one.',
    icon: IconUserX,
    tone: 'bad',
    all: { to: '/allocations', search: { status: 'failed' } },
  },
  degraded: {
    title: 'Degraded for a while',
    means: 'These machines report problems and have not recovered by themselves. Read each report.',
    icon: IconActivityHeartbeat,
    tone: 'warn',
    all: { to: '/fleet', search: { status: 'degraded' } },
  },
  teardowns: {
    title: 'Teardowns that fail',
    means: 'Slipway retries each teardown. After the last try, the machine is quarantined.',
    icon: IconRefreshAlert,
    tone: 'leaving',
    all: { to: '/fleet', search: { status: 'cleaning' } },
  },
  residue: {
    title: 'Left behind',
    means: 'These resources may still exist at a provider without an owner. You may be billed for them.',
    icon: IconLeaf,
    tone: 'warn',
    all: { to: '/residue' },
  },
  slower: {
    title: 'Slower boots',
    means: 'Machines take longer to boot than before. Find the cause or raise the budget before boots time out.',
    icon: IconHourglassHigh,
    tone: 'warn',
    all: { to: '/drift' },
  },
  drift: {
    title: 'Findings',
    means: 'Our records and the provider disagree, or something fails repeatedly.',
    icon: IconAlertTriangle,
    tone: 'warn',
    all: { to: '/drift' },
  },
  retried: {
    title: 'Releases being retried',
    means: 'Slipway retries each release. You can retry sooner.',
    icon: IconRefresh,
    tone: 'leaving',
    all: { to: '/allocations', search: { status: 'release_failed' } },
  },
};
