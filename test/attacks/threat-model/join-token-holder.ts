/** The threat model for holders of a join token. */
import { type Attacker, attack, test } from './lines.ts';

export const joinTokenHolder: Attacker = {
  name: 'Join-token holder',
  holds: 'a join token of one pool: valid, expired or spent',
  can: [
    {
      says: 'Add new machines to that pool while the token is valid, up to its uses and the pool’s `max_nodes`.',
      shown_by: test('test/api/agents/agent-protocol.test.ts', 'by join token is limited in uses and time'),
    },
    {
      says: 'Speak for AgentField machines of that pool from their own endpoint: that protocol has no credential.',
      shown_by: test(
        'test/api/compat/returns.test.ts',
        'with limited uses is accepted only for the machines that joined with it',
      ),
    },
  ],
  cannot: [
    {
      says: 'Take over a known machine, its name, its address or its allocation.',
      shown_by: [
        ...attack('join-token-holder/known-names')(
          "takes over a tenant's machine by its name",
          "moves a tenant's AgentField machine to its own address",
          'takes the name of a running AgentField process',
          'takes the name of a machine with a credential through AgentField',
          "takes over a tenant's offline molecule workspace by its address",
          'replays the recorded proof of a key',
          'uses an old, unsent proof of a key',
          'sends the recorded proof of a key along with a key of its own',
        ),
        ...test(
          'test/api/agents/agent-protocol.test.ts',
          'of a known name needs its credential or key, never a join token alone',
        ),
      ],
    },
    {
      says: 'Keep the name of a live AgentField process that names itself, push that process out of memory, or forge the source address in the finding.',
      shown_by: attack('join-token-holder/live-names')(
        'keeps the name of a live AgentField process that it displaced',
        'takes the name of a live AgentField process without naming its own',
        'makes the server forget a live AgentField process by registering many others',
        'floods the list of processes that had a name',
        'forges the address in the finding about two live processes with X-Forwarded-For',
      ),
    },
    {
      says: 'Use an expired or revoked token at all, or let in another machine with a spent one.',
      shown_by: attack('join-token-holder/known-names')(
        'takes over a machine with an expired join token',
        "takes a tenant's AgentField machine offline with an expired join token from the cache",
        'returns as another AgentField machine with a spent join token',
        'reports a failed boot with an expired join token',
      ),
    },
    {
      says: 'Take a machine from the token that admitted it, or excuse the silence of a machine with a token that ended after the machine went silent.',
      shown_by: attack('join-token-holder/other-tokens')(
        'takes an AgentField machine from the spent token that admitted it',
        "makes the server blame a machine's silence on a join token that ended later",
      ),
    },
    {
      says: 'Ask so often through a foreign protocol that others wait.',
      shown_by: attack('join-token-holder/request-rates')(
        'lists the AgentField machines of its pool without a rate limit',
        'looks up unknown AgentField machines without a rate limit',
        'calls as one AgentField machine without a rate limit',
      ),
    },
    {
      says: 'Trigger unlimited probes, or delay machines of other pools with them.',
      shown_by: attack('join-token-holder/probes')(
        'keeps all probes busy, so that a machine of another pool cannot return',
        'has addresses probed after its token used up its allowance',
      ),
    },
    {
      says: 'Exceed `max_nodes`, or read or report about machines that came by another protocol.',
      shown_by: attack('join-token-holder/known-names')(
        'reads the address of a machine of another protocol through AgentField',
        'joins a pool beyond max_nodes',
        'reports a failed boot of a machine with an agent through molecule',
      ),
    },
  ],
};
