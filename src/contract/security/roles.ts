/**
 * From least to most privileged; each role includes the previous ones. Apart from its schema
 * (token.ts), for programs that do not validate.
 */
export const roles = ['viewer', 'operator', 'admin'] as const;

/**
 * Roles of tokens: a person or program, or a relay, which may only forward heartbeats of one pool.
 */
export const tokenRoles = [...roles, 'relay'] as const;
