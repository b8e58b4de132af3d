/** Where a fact of evidence comes from. */
export const originMeans = {
  internal: 'the control plane decided or saw it',
  report: 'a machine, or a program that watches it, reported it in a call whose shape the control plane sets',
  node: 'a machine posted it in its own words',
  person: 'a person or a program posted it',
  unknown: 'recorded before origins were kept',
} as const;

export type Origin = keyof typeof originMeans;
export const origins = Object.keys(originMeans) as Origin[];

/**
 * The server sets the origin by the route of the call. `OutsideOrigin` is for facts that
 * callers post, `OwnOrigin` for facts that the server writes.
 */
export type OutsideOrigin = Extract<Origin, 'node' | 'person'>;
export type OwnOrigin = Extract<Origin, 'internal' | 'report'>;

interface OriginFields {
  origin: Origin;
  layer: string;
  actor: { name: string } | null;
}

/** The label of a fact from outside the control plane; null for its own and for unknown origins. */
export function originLabel({ origin, layer, actor }: OriginFields): string | null {
  if (origin === 'report' && layer !== 'node') return 'reported by a watcher';
  if (origin === 'report' || origin === 'node') return 'machine says';
  return origin === 'person' ? `reported by ${actor?.name ?? 'an unknown caller'}` : null;
}
