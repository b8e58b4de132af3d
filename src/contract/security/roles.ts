/** From least to most; a role may do all that the ones before it may. Beside its schema (token.ts), for programs that validate nothing. */
export const roles = ['viewer', 'operator', 'admin'] as const;

/** What a token may be for: a person or program, or a relay, which stands outside that order and may only pass on beats of one pool. */
export const tokenRoles = [...roles, 'relay'] as const;
