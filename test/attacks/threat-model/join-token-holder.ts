/** Join-token holder in the threat model. */
import { type Attacker, attack, test } from './lines.ts';

export const joinTokenHolder: Attacker = {
  name: 'Join-token holder',
  holds: 'a join token of one pool: valid, expired or spent',
  can: [
    {
      says: 'Add new machines to that pool while the token is valid, up to its uses and the pool’s `max_nodes`.',
      shown_by: test(
        'test/api/agents/agent-protocol.test.ts',
        'by join token: bounded in uses, time and until revoked, for new names only',
      ),
    },
    {
      says: 'Speak for AgentField machines of that pool from their own endpoint: that protocol has no credential.',
      shown_by: test(
        'test/api/compat/returns.test.ts',
        'with a number of uses speaks for the machines that it let in, and for no others',
      ),
    },
  ],
  cannot: [
    {
      says: 'Take over a known machine, its name, its address or its allocation.',
      shown_by: [
        ...attack('join-token-holder/known-names')(
          "2: takes over a tenant's machine by its name",
          "2: moves a tenant's AgentField machine to its own address",
          '2: takes the name of an AgentField process that runs',
          '2: takes the name of a machine with a credential through AgentField',
          "2: takes a tenant's molecule workspace that is offline by naming its address",
          '2: repeats the recorded proof of a key',
          '2: uses a proof of a key that was signed long ago and never sent',
          '2: sends the recorded proof of a key along with a key of its own',
        ),
        ...test(
          'test/api/agents/agent-protocol.test.ts',
          'a known name needs its credential or its key, and never comes back on a join token alone',
        ),
      ],
    },
    {
      says: 'Keep the name of a live AgentField process that names itself, push that process out of memory, or forge the source address in the finding.',
      shown_by: attack('join-token-holder/live-names')(
        '2: keeps the name of a live AgentField process that it displaced',
        '2: takes the name of a live AgentField process without naming its own',
        '2: has a live AgentField process forgotten by processes that register and leave',
        '10: floods the list of the processes that had a name',
        '4: has the finding about two live processes name a forged address by X-Forwarded-For',
      ),
    },
    {
      says: 'Use an expired or revoked token at all, or let in another machine with a spent one.',
      shown_by: attack('join-token-holder/known-names')(
        '2: takes over a machine with an expired join token',
        "2: takes a tenant's AgentField machine offline with an expired join token that is remembered",
        '2: returns as another AgentField machine with a spent join token',
        '16: reports a failed boot with an expired join token',
      ),
    },
    {
      says: 'Take a machine from the token that admitted it, or excuse the silence of a machine with a token that ended after the machine went silent.',
      shown_by: attack('join-token-holder/other-tokens')(
        '2: takes an AgentField machine from the spent token that let it in',
        '2: has the silence of a machine blamed on a join token that ended later',
      ),
    },
    {
      says: 'Ask so often through a foreign protocol that others wait.',
      shown_by: attack('join-token-holder/request-rates')(
        '5: lists the AgentField machines of its pool as often as it likes',
        '5: has AgentField machines looked up that are not there',
        '5: calls as one AgentField machine as often as it likes',
      ),
    },
    {
      says: 'Trigger unlimited probes, or delay machines of other pools with them.',
      shown_by: attack('join-token-holder/probes')(
        '2: keeps all probes busy, so that a machine of another pool cannot return',
        '2: has addresses probed after its token has used up its allowance',
      ),
    },
    {
      says: 'Exceed `max_nodes`, or read or report about machines that came by another protocol.',
      shown_by: attack('join-token-holder/known-names')(
        '2: reads the address of a machine of another protocol through AgentField',
        '10: joins a pool beyond max_nodes',
        '16: reports that a machine with an agent failed to boot, as a watcher of molecule',
      ),
    },
  ],
};
