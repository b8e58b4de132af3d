/** Who can make a call: a person or program with a token, or a relay. */

import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Role } from '../../contract/security/token.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';

/** A person or program with a token or session. */
export interface Person {
  token_id: string;
  name: string;
  role: Role;
  visibility: Visibility;
  /** When the token or the session ends, whichever is sooner. */
  expires_at: Date | null;
  /** The console's session that the call came by; null for a bearer token. */
  session_id: string | null;
}

/** Passes on the beats of a pool's machines. */
export interface Relay {
  token_id: string;
  name: string;
  pool: string;
  expires_at: Date | null;
}

export const actorOf = (person: Pick<Person, 'token_id' | 'name'>): Actor => ({
  kind: 'token',
  id: person.token_id,
  name: person.name,
});
