/**
 * The layers that evidence can come from. Apart from its schema (evidence.ts), for programs that do
 * not validate.
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
