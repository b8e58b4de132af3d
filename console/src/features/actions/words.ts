/** What an action is called, and how it is set apart. Which there are, what they do and which are open is the server's word. Pure. */

import type { Offer } from '../../../../src/lifecycle/actions/action-table.ts';
import type { NodeActionName } from '../../../../src/lifecycle/actions/actions.ts';
import type { AllocationActionName } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { AllocationStatus } from '../../../../src/lifecycle/model/states.ts';
import { humanize } from '../../ui/text.ts';

export type ActionName = NodeActionName | AllocationActionName;

const labels: Readonly<Record<string, string>> = {
  're-enroll': 'Re-enroll',
  'accept-key': 'Accept the key',
  'apply-held-verdict': 'Apply the held verdict',
};

export const actionLabel = (action: string): string => labels[action] ?? humanize(action);

/** Before it is active, giving it back is a cancel that is verified. */
const notYetActive: ReadonlySet<AllocationStatus> = new Set(['requested', 'provisioning']);

export const allocationActionLabel = (action: string, status: AllocationStatus): string =>
  action === 'release' && notYetActive.has(status) ? 'Cancel' : actionLabel(action);

/** They take a machine, or what is on it, away from somebody; nobody should press one while looking for another. */
const drastic: ReadonlySet<string> = new Set(['force-release', 'retire', 'reimage', 'quarantine']);
export const isDrastic = (action: string): boolean => drastic.has(action);

/** Something ends by them, so that the button is red. */
const ending: ReadonlySet<string> = new Set([...drastic, 'release', 'apply-held-verdict']);
export const isEnding = (action: string): boolean => ending.has(action);

/** What leads out of where a thing is stuck; open, it stands on the page itself and not only in the menu. */
const waysOut: ReadonlySet<string> = new Set(['retry', 'retry-release', 'accept-key', 'undrain', 'reactivate']);
export const isWayOut = (action: string): boolean => waysOut.has(action);

/** What some want to know besides the reason, as the wire names it. */
export type ExtraName = 'seconds' | 'drain_then';
const extras: Readonly<Record<string, readonly ExtraName[]>> = {
  'extend-deadline': ['seconds'],
  drain: ['drain_then'],
};
export const extrasOf = (action: string): readonly ExtraName[] => extras[action] ?? [];

export interface Shelves<Name extends string> {
  open: Offer<Name>[];
  drastic: Offer<Name>[];
  closed: Offer<Name>[];
}

/** What can be pressed goes first, what should not be pressed by mistake apart, and what is closed last, with its reason. */
export const onShelves = <Name extends string>(offers: readonly Offer<Name>[]): Shelves<Name> => ({
  open: offers.filter(({ open, action }) => open && !isDrastic(action)),
  drastic: offers.filter(({ open, action }) => open && isDrastic(action)),
  closed: offers.filter(({ open }) => !open),
});
