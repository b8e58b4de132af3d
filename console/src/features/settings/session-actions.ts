/** The action that ends a console session. */
import type { QueryClient } from '@tanstack/react-query';
import type { ConsoleSession } from '../../../../src/contract/security/token.ts';
import { keys } from '../../api/cache/keys.ts';
import { revokeSession } from '../../api/queries/sessions.ts';
import type { Action } from '../actions/action.ts';

export const revokeSessionAction = ({ session_id, name, current }: ConsoleSession, cache: QueryClient): Action => ({
  title: `Revoke session · ${name}`,
  description: current
    ? 'This is your session. You are signed out at once.'
    : 'That browser is signed out at once. The token stays valid.',
  button: 'Revoke',
  destructive: true,
  takesReason: false,
  run: async (_, key) => {
    await revokeSession(session_id, key);
    await cache.invalidateQueries({ queryKey: keys.sessions() });
    return { notice: `The session of ${name} has ended` };
  },
});
