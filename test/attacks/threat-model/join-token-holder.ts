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
      says: 'Act as AgentField machines of that pool from the endpoint of those machines: that protocol has no credential.',
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
          "moves a tenant's AgentField machine to the attacker's address",
          'takes the name of a running AgentField process',
          'uses AgentField to take the name of a machine that has a credential',
          "takes over a tenant's offline molecule workspace by its address",
          'replays a recorded key proof',
          'registers with a key proof that was signed ten minutes ago',
          "registers the attacker's key with a key proof of the victim",
        ),
        ...test(
          'test/api/agents/agent-protocol.test.ts',
          'of a known name needs its credential or key, never a join token alone',
        ),
      ],
    },
    {
      says: 'Keep the name of a live AgentField process that sends an `instance_id`, make the server forget that process, or forge the source address in the finding.',
      shown_by: attack('join-token-holder/live-names')(
        'takes the name of a live AgentField process and keeps the name',
        'takes the name of a live AgentField process by registering without an instance id',
        'makes the server forget a live AgentField process by registering many others',
        'makes the server store an unlimited number of processes for one name',
        'uses X-Forwarded-For to forge the address in the finding about two live processes',
      ),
    },
    {
      says: 'Use an expired or revoked token at all, or let in another machine with a spent one.',
      shown_by: attack('join-token-holder/known-names')(
        'takes over a machine with an expired join token',
        "takes a tenant's AgentField machine offline with an expired join token that the server has cached",
        'uses a spent join token to register under the name of another AgentField machine',
        'reports a failed boot with an expired join token',
      ),
    },
    {
      says: 'Take a machine from the token that admitted it, or excuse the silence of a machine with a token that ended after the machine went silent.',
      shown_by: attack('join-token-holder/other-tokens')(
        "registers an AgentField machine with another token, so that the machine's own token is refused",
        "makes the server blame a machine's silence on a join token that expired later",
      ),
    },
    {
      says: 'Call a foreign protocol so often that others have to wait.',
      shown_by: attack('join-token-holder/request-rates')(
        'lists the AgentField machines of its pool without a rate limit',
        'looks up unknown AgentField machines without a rate limit',
        'sends heartbeats of one AgentField machine without a rate limit',
      ),
    },
    {
      says: 'Trigger unlimited probes, or delay machines of other pools with them.',
      shown_by: attack('join-token-holder/probes')(
        'uses up all probes, so that a machine of another pool cannot register from a new address',
        'makes the server probe addresses after its token has used up its allowance',
      ),
    },
    {
      says: 'Exceed `max_nodes`, or read or report about machines that came by another protocol.',
      shown_by: attack('join-token-holder/known-names')(
        'uses AgentField to read the address of a machine that joined by another protocol',
        'joins a pool beyond max_nodes',
        'uses molecule to report a failed boot of a machine that runs the agent',
      ),
    },
  ],
};
