/** Whose statement a fact of evidence is. Apart from its schema (evidence.ts), so that browsers load no validation. */
export const originMeans = {
  internal: 'the control plane decided or saw it',
  report: 'a machine reported it in a call whose shape the control plane sets',
  node: 'a machine posted it in its own words',
  person: 'a person or a program posted it',
  unknown: 'recorded before origins were kept',
} as const;

export type Origin = keyof typeof originMeans;
export const origins = Object.keys(originMeans) as Origin[];

/** The server sets the origin from the route a fact came by. Only these two are for facts from outside. */
export type OutsideOrigin = Extract<Origin, 'node' | 'person'>;
export type OwnOrigin = Extract<Origin, 'internal' | 'report'>;
