/** Types of callers: people and programs with a token, and relays. */

import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Role } from '../../contract/security/token.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';

/** A person or program with a token or session. */
export interface Person {
  token_id: string;
  name: string;
  role: Role;
  visibility: Visibility;
  /** When the token or the session ends, whichever comes first. */
  expires_at: Date | null;
  /** The console session of the call; null for a bearer token. */
  session_id: string | null;
  /** The database was away, so the token was not checked. The caller sees nothing of the fleet. */
  is_unchecked?: true;
}

/** Forwards the heartbeats of a pool's machines. */
export interface Relay {
  token_id: string;
  name: string;
  pool: string;
  expires_at: Date | null;
}

export const actorOf = ({ token_id, name }: Pick<Person | Relay, 'token_id' | 'name'>): Actor => ({
  kind: 'token',
  id: token_id,
  name,
});
