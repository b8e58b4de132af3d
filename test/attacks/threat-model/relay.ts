/** The threat model for relays. */
import { type Attacker, attack, test } from './lines.ts';

export const relay: Attacker = {
  name: 'Relay',
  holds: 'a relay token of one pool, and the traffic that passes through it',
  can: [
    {
      says: 'Pass on beats with the machines’ own credentials, delay them, or drop them.',
      shown_by: test('test/api/relay/relay.test.ts', 'serves a real agent, from its registration to its goodbye'),
    },
  ],
  cannot: [
    {
      says: 'Speak for a machine whose credential it does not have.',
      shown_by: attack('relay/unproven-beats')(
        'takes a machine of its pool offline by naming it',
        'degrades a machine of its pool over the stream by naming it',
        'keeps a dead machine alive with plain beats',
      ),
    },
    {
      says: 'Use any route for people.',
      shown_by: test(
        'test/api/relay/relay.test.ts',
        'forwards the rest of the agent protocol unchanged, and nothing else',
      ),
    },
  ],
};
