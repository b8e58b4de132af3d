/** The places of the console, in order. A page that is not built yet is not listed; adding it here is all it takes. */
import {
  IconBell,
  IconBox,
  IconFileSearch,
  IconGavel,
  IconGridDots,
  IconLeaf,
  IconProgressCheck,
  IconRocket,
  IconScale,
  IconSettings,
  IconStack2,
} from '@tabler/icons-react';
import type { Session } from '../../../src/contract/token.ts';
import { mayOperate, seesWholeFleet } from '../api/session.ts';

export interface Place {
  to:
    | '/attention'
    | '/fleet'
    | '/allocations'
    | '/operations'
    | '/pools'
    | '/boots'
    | '/supervision'
    | '/residue'
    | '/drift'
    | '/audit'
    | '/settings';
  /** Addresses below which this place is where one is. */
  covers: string[];
  label: string;
  icon: typeof IconBox;
  /** Pressed after `g`. */
  key: string;
  isFor?: (session: Session) => boolean;
}

const operatesFleet = (session: Session) => mayOperate(session) && seesWholeFleet(session);

export const places: Place[] = [
  { to: '/attention', covers: ['/attention'], label: 'Attention', icon: IconBell, key: 'a' },
  { to: '/fleet', covers: ['/fleet', '/nodes'], label: 'Fleet', icon: IconGridDots, key: 'f' },
  { to: '/allocations', covers: ['/allocations'], label: 'Allocations', icon: IconBox, key: 'l' },
  { to: '/operations', covers: ['/operations'], label: 'Operations', icon: IconProgressCheck, key: 'o' },
  { to: '/pools', covers: ['/pools'], label: 'Pools', icon: IconStack2, key: 'p', isFor: seesWholeFleet },
  { to: '/boots', covers: ['/boots'], label: 'Boots', icon: IconRocket, key: 'b', isFor: seesWholeFleet },
  {
    to: '/supervision',
    covers: ['/supervision'],
    label: 'Supervision',
    icon: IconGavel,
    key: 's',
    isFor: seesWholeFleet,
  },
  { to: '/residue', covers: ['/residue'], label: 'Residue', icon: IconLeaf, key: 'r', isFor: seesWholeFleet },
  { to: '/drift', covers: ['/drift'], label: 'Drift', icon: IconScale, key: 'd', isFor: seesWholeFleet },
  { to: '/audit', covers: ['/audit'], label: 'Audit', icon: IconFileSearch, key: 'u', isFor: operatesFleet },
  { to: '/settings', covers: ['/settings'], label: 'Settings', icon: IconSettings, key: 't', isFor: operatesFleet },
];
