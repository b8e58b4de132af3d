/** The pages in the navigation, in order. */

import type { Session } from '../../../src/contract/security/token.ts';
import type { GlossaryWord } from '../../../src/lifecycle/glossary.ts';
import { mayOperate, seesWholeFleet } from '../api/session.ts';
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
} from '../ui/icons.generated.ts';

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
  /** The link is highlighted while the URL path starts with one of these paths. */
  covers: string[];
  label: string;
  /** The tooltip is the glossary entry of this word. */
  word: GlossaryWord;
  icon: typeof IconBox;
  /** The letter to press after `g`. */
  key: string;
  isFor?: (session: Session) => boolean;
}

const operatesFleet = (session: Session) => mayOperate(session) && seesWholeFleet(session);

export const places: Place[] = [
  { to: '/attention', covers: ['/attention'], label: 'Attention', word: 'attention', icon: IconBell, key: 'a' },
  { to: '/fleet', covers: ['/fleet', '/nodes'], label: 'Fleet', word: 'fleet', icon: IconGridDots, key: 'f' },
  { to: '/allocations', covers: ['/allocations'], label: 'Allocations', word: 'allocation', icon: IconBox, key: 'l' },
  {
    to: '/operations',
    covers: ['/operations'],
    label: 'Operations',
    word: 'operation',
    icon: IconProgressCheck,
    key: 'o',
  },
  { to: '/pools', covers: ['/pools'], label: 'Pools', word: 'pool', icon: IconStack2, key: 'p', isFor: seesWholeFleet },
  { to: '/boots', covers: ['/boots'], label: 'Boots', word: 'boot', icon: IconRocket, key: 'b', isFor: seesWholeFleet },
  {
    to: '/supervision',
    covers: ['/supervision', '/restoration'],
    label: 'Supervision',
    word: 'supervision',
    icon: IconGavel,
    key: 's',
    isFor: seesWholeFleet,
  },
  {
    to: '/residue',
    covers: ['/residue'],
    label: 'Residue',
    word: 'residue',
    icon: IconLeaf,
    key: 'r',
    isFor: seesWholeFleet,
  },
  { to: '/drift', covers: ['/drift'], label: 'Drift', word: 'drift', icon: IconScale, key: 'd', isFor: seesWholeFleet },
  {
    to: '/audit',
    covers: ['/audit'],
    label: 'Audit',
    word: 'audit',
    icon: IconFileSearch,
    key: 'u',
    isFor: operatesFleet,
  },
  {
    to: '/settings',
    covers: ['/settings'],
    label: 'Settings',
    word: 'setting',
    icon: IconSettings,
    key: 't',
    isFor: operatesFleet,
  },
];
