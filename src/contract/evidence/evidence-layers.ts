/**
 * The layers that evidence can come from. Kept apart from the schemas in evidence.ts, so that
 * programs that validate nothing do not load TypeBox.
 */
export const evidenceLayers = [
  'node',
  'provider',
  'api',
  'workflow',
  'rule',
  'operator',
  'store',
  'transport',
] as const;
