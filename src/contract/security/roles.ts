/**
 * The roles from least to most privileged; each includes the previous ones. Kept apart
 * from the schemas in token.ts, so that programs that validate nothing do not load TypeBox.
 */
export const roles = ['viewer', 'operator', 'admin'] as const;

/**
 * The roles of a token. People and programs get one of `roles`. A relay gets `relay`, which may
 * only forward heartbeats of one pool.
 */
export const tokenRoles = [...roles, 'relay'] as const;
