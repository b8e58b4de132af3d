/** The places of the console, in order. A page that is not built yet is not listed; adding it here is all it takes. */
import {
  IconBell,
  IconBox,
  IconGavel,
  IconGridDots,
  IconLeaf,
  IconProgressCheck,
  IconScale,
  IconStack2,
} from '@tabler/icons-react';
import type { Session } from '../../src/contract/token.ts';
import { seesWholeFleet } from './api/session.ts';

export interface Place {
  to: '/attention' | '/fleet' | '/allocations' | '/operations' | '/pools' | '/supervision' | '/residue' | '/drift';
  /** Addresses below which this place is where one is. */
  covers: string[];
  label: string;
  icon: typeof IconBox;
  /** Pressed after `g`. */
  key: string;
  isFor?: (session: Session) => boolean;
}

export const places: Place[] = [
  { to: '/attention', covers: ['/attention'], label: 'Attention', icon: IconBell, key: 'a' },
  { to: '/fleet', covers: ['/fleet', '/nodes'], label: 'Fleet', icon: IconGridDots, key: 'f' },
  { to: '/allocations', covers: ['/allocations'], label: 'Allocations', icon: IconBox, key: 'l' },
  { to: '/operations', covers: ['/operations'], label: 'Operations', icon: IconProgressCheck, key: 'o' },
  { to: '/pools', covers: ['/pools'], label: 'Pools', icon: IconStack2, key: 'p', isFor: seesWholeFleet },
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
];
