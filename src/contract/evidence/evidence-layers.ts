/** Who can tell of something. Beside its schema (evidence.ts), for programs that validate nothing. */
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
