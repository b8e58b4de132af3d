/** The threat model for relays. */
import { type Attacker, attack, test } from './lines.ts';

export const relay: Attacker = {
  name: 'Relay',
  holds: 'a relay token of one pool, and the traffic that passes through it',
  can: [
    {
      says: 'Pass on heartbeats with the machines’ own credentials, delay them, or drop them.',
      shown_by: test('test/api/relay/relay.test.ts', 'serves a real agent, from its registration to its goodbye'),
    },
  ],
  cannot: [
    {
      says: 'Act as a machine whose credential it does not have.',
      shown_by: attack('relay/unproven-beats')(
        'takes a machine offline with a heartbeat that has no credential',
        'degrades a machine over the stream with a heartbeat that has no credential',
        'keeps a dead machine alive with heartbeats that have no credential',
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
