/** What a role may do, in words. Pure. */
import type { Role } from '../../../src/contract/token.ts';

export const roleWords: Record<Role, string> = {
  viewer: 'may look',
  operator: 'may allocate, release and act on machines',
  admin: 'may do everything, tokens included',
};

export const roles = Object.keys(roleWords) as Role[];
