/**
 * Labels and groups of actions. The server decides which actions exist, what they do and which are
 * available. Pure.
 */

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

/** Releasing an allocation before it is active cancels it. */
const statusesBeforeActive: ReadonlySet<AllocationStatus> = new Set(['requested', 'provisioning']);

export const allocationActionLabel = (action: string, status: AllocationStatus): string =>
  action === 'release' && statusesBeforeActive.has(status) ? 'Cancel' : actionLabel(action);

/**
 * Actions that take away a machine or its data. The menu lists them separately, to avoid a wrong
 * click.
 */
const drasticActions: ReadonlySet<string> = new Set(['force-release', 'retire', 'reimage', 'quarantine']);
export const isDrastic = (action: string): boolean => drasticActions.has(action);

/** Actions that end something; their buttons are red. */
const endingActions: ReadonlySet<string> = new Set([...drasticActions, 'release', 'apply-held-verdict']);
export const isEnding = (action: string): boolean => endingActions.has(action);

/** Actions that lead out of a stuck status. They get a button on the page while available. */
const waysOut: ReadonlySet<string> = new Set(['retry', 'retry-release', 'accept-key', 'undrain', 'reactivate']);
export const isWayOut = (action: string): boolean => waysOut.has(action);

/** The fields besides the reason, named as on the wire. */
export type ExtraName = 'seconds' | 'drain_then';
const extras: Readonly<Record<string, readonly ExtraName[]>> = {
  'extend-deadline': ['seconds'],
  drain: ['drain_then'],
};
export const extrasOf = (action: string): readonly ExtraName[] => extras[action] ?? [];

export interface OfferGroups<Name extends string> {
  available: Offer<Name>[];
  drastic: Offer<Name>[];
  unavailable: Offer<Name>[];
}

/** Groups the offers into available, available but drastic, and unavailable ones. */
export const groupOffers = <Name extends string>(offers: readonly Offer<Name>[]): OfferGroups<Name> => ({
  available: offers.filter(({ open, action }) => open && !isDrastic(action)),
  drastic: offers.filter(({ open, action }) => open && isDrastic(action)),
  unavailable: offers.filter(({ open }) => !open),
});
