/** Describes what ending a restoration does to the nodes that an unknown tenant may use. Pure. */
import type { RestorationState } from '../../../../src/contract/supervision/restoration.ts';

export type Restoration = NonNullable<RestorationState['newest']>;

const nodes = (count: number): string => (count === 1 ? '1 node' : `${count} nodes`);

/**
 * Which nodes are quarantined when the restoration ends. The server leaves out nodes that are
 * quarantined already.
 */
export function quarantineWords(
  {
    changed_hands,
    unconfirmed,
    maybe_used,
  }: Pick<Restoration['differences'], 'changed_hands' | 'unconfirmed' | 'maybe_used'>,
  { trustsFree, trustsUnconfirmed }: { trustsFree: boolean; trustsUnconfirmed: boolean },
): string {
  const free = trustsFree ? 0 : maybe_used;
  const unknown = trustsUnconfirmed ? 0 : unconfirmed;
  const parts = [
    changed_hands > 0 && `${nodes(changed_hands)} that changed hands`,
    unknown > 0 && `${nodes(unknown)} that cannot be confirmed`,
    free > 0 && `${nodes(free)} that may be used`,
  ].filter(Boolean);
  return parts.length === 0 ? 'No node is quarantined.' : `First quarantined: ${parts.join(', ')}.`;
}

export const endedNotice = (quarantined: number): string =>
  `The servers act again; ${quarantined === 0 ? 'no node was quarantined' : `${nodes(quarantined)} quarantined`}`;
