/** Describes what a role may do. Pure. */
import type { Role, TokenRole } from '../../../../src/contract/security/token.ts';

/** From least to most. */
export const roles: readonly Role[] = ['viewer', 'operator', 'admin'];

export const roleWords: Record<TokenRole, string> = {
  viewer: 'may look',
  operator: 'may allocate, release and act on machines',
  admin: 'may do everything, tokens included',
  relay: 'may forward the heartbeats of one pool',
};
