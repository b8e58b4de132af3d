/**
 * The roles from least to most privileged; each includes the previous ones. They are separate from
 * the schema (token.ts), so that programs that do not validate need not load it.
 */
export const roles = ['viewer', 'operator', 'admin'] as const;

/**
 * Roles of tokens: a person or program, or a relay, which may only forward heartbeats of one pool.
 */
export const tokenRoles = [...roles, 'relay'] as const;
