/** How a machine can differ from its restored row, and what to do about it. */
export const differenceCatalogue = {
  changed_hands: {
    title: 'Changed hands',
    means: 'It was released, or replaced by another instance, after the backup. An unknown tenant may use it.',
    remedy:
      'It is taken from its recorded tenant and quarantined when you end the restoration. Find out who uses it; then retire or reactivate it.',
  },
  came: {
    title: 'Unknown here',
    means: 'It was launched after the backup, so no node is recorded for it.',
    remedy: 'It is listed as residue after you end the restoration. Adopt or delete it there.',
  },
  gone: {
    title: 'Gone',
    means: 'Its provider no longer has it.',
    remedy: 'Its node fails after you end the restoration, with the usual rules.',
  },
  unconfirmed: {
    title: 'Unconfirmed',
    means: 'It may no longer serve the tenant of the restored rows: nothing confirms it.',
    remedy:
      'It is quarantined when you end the restoration, unless you say that none changed hands. Its recorded tenant keeps it. Reactivate it once its agent is heard.',
  },
  maybe_used: {
    title: 'Maybe used',
    means: 'It is free here, and may have been allocated after the backup.',
    remedy:
      'It is quarantined when you end the restoration, unless you say that nothing was allocated after the backup. Reactivate the free ones.',
  },
} as const;

export type RestoredDifferenceKind = keyof typeof differenceCatalogue;
export const restoredDifferenceKinds = Object.keys(differenceCatalogue) as RestoredDifferenceKind[];
