/** Node in the threat model. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const node: Attacker = {
  name: 'Node',
  holds: 'the credential of one machine, or root on it',
  can: [
    {
      says: 'Beat, report its health and boot, ship logs, and answer its tasks. All of it is marked as its statement.',
      shown_by: test('test/api/evidence/evidence.test.ts', 'join the story of whatever they name, with who told them'),
    },
    {
      says: 'Lie about its own health. Rules decide by what the server hears and measures.',
      shown_by: test(
        'test/api/agents/agent-protocol.test.ts',
        'that change a status are durable before they are answered',
      ),
    },
  ],
  cannot: [
    {
      says: 'Speak as the control plane: in facts, explanations, verdicts or ways out.',
      shown_by: attack('node/forged-facts')(
        '3: posts a fact of a kind that the server writes',
        '3: has an explanation blame a relay for its silence',
        '3: has a rule blame a relay in its verdict',
        '3: has an explanation show its own way out',
      ),
    },
    {
      says: 'Bypass redaction of known secret formats by the structure of a fact.',
      shown_by: [
        ...attack('node/forged-facts')(
          '3: has a secret stored in plain text by a fact in the shape of those about rows',
        ),
        ...test('src/store/pg/redacted-rows.test.ts', '`set` in a fact of a %s is redacted like all of its data'),
      ],
    },
    {
      says: 'Replace the key of its machine and then sign that the machine is clean.',
      shown_by: attack('node/replaced-key')(
        '13: replaces the key by the credential and signs that the machine is clean',
        '13: signs the change of key with the new key',
        '13: launders an unproven key by a second change that it signs',
        '13: has an operator accept another key than the one that they saw',
      ),
    },
    {
      says: 'Lock the machine out with a copied credential, or join as it with another key.',
      shown_by: [
        ...attack('node/replaced-key')(
          '13: locks the machine out of rotation by replacing its key',
          '13: joins as the machine with a key that it put in place of another',
        ),
        ...test(
          'test/api/agents/agent-keys.test.ts',
          'a key that a replica of an earlier version stored is in doubt, and the one before it is not',
        ),
      ],
    },
    {
      says: 'Renew a stolen credential without the machine’s key, or use it beyond its lifetime.',
      shown_by: attack('node/stolen-credential')(
        'ageing: renews a stolen credential without the key',
        'ageing: beats with a stolen credential after its lifetime',
        'ageing: registers again with a stolen credential after its lifetime',
        'ageing: beats with an old credential right after a start of the server',
      ),
    },
    {
      says: 'Fill the disk with what it reports, registers or rotates.',
      shown_by: [
        ...attack('node/floods')(
          '5: fills the store with facts of its own',
          '5: fills the store with boot stages',
          '5: fills the store with prerequisites',
          '5: fills the store by rotating its credential',
          '5: fills the store by flapping its status',
          '5: fills the store by registering again and again',
        ),
        ...attack('node/concurrent-writes')('5: overdraws its allowance by 200 requests at once'),
      ],
    },
    {
      says: 'Run a task that is signed by a task key that the server retired.',
      shown_by: attack('node/retired-task-key')('task keys: has an agent run a task that a retired key signed'),
    },
    {
      says: 'Fill the log store, or keep the server busy with boot reports.',
      shown_by: [
        ...attack('node/log-bomb')('11: keeps more of its log than the limit, as lines that compress well'),
        ...attack('node/boot-report')('1: keeps the server busy with a boot report of stages that never end'),
      ],
    },
    {
      says: 'Speak for another machine, or after it was replaced.',
      shown_by: [
        ...authorization('refuses whoever is no live machine'),
        ...test('test/api/agents/agent-protocol.test.ts', 'an old instance is told that it was replaced'),
      ],
    },
  ],
};
