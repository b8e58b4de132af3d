/** The action that revokes a token. */
import type { QueryClient } from '@tanstack/react-query';
import type { Token } from '../../../../src/contract/security/token.ts';
import { keys } from '../../api/cache/keys.ts';
import { revokeToken } from '../../api/queries/tokens.ts';
import type { Action } from '../actions/action.ts';

export const revokeAction = ({ token_id, name }: Token, cache: QueryClient): Action => ({
  title: `Revoke · ${name}`,
  description:
    'People who use this token are signed out. Programs that use it are refused at once. You cannot undo this.',
  button: 'Revoke',
  destructive: true,
  takesReason: false,
  run: async (_, key) => {
    await revokeToken(token_id, key);
    await cache.invalidateQueries({ queryKey: keys.tokens() });
    return { notice: `The token ${name} is revoked` };
  },
});
