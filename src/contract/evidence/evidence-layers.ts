/**
 * The layers that evidence can come from. They are separate from the schema (evidence.ts), so that
 * programs that do not validate need not load it.
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
