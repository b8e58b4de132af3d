/** From least to most; a role may do all that the ones before it may. Beside its schema (token.ts), for programs that validate nothing. */
export const roles = ['viewer', 'operator', 'admin'] as const;
