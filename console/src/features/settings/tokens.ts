/** Describes what each role may do. Pure. */
import type { Role, TokenRole } from '../../../../src/contract/security/token.ts';

/** Ordered from the fewest rights to the most. */
export const roles: readonly Role[] = ['viewer', 'operator', 'admin'];

export const roleWords: Record<TokenRole, string> = {
  viewer: 'may read',
  operator: 'may allocate, release and act on machines',
  admin: 'may do everything, tokens included',
  relay: 'may forward the heartbeats of one pool',
};
