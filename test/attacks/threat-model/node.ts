/** The threat model for nodes. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const node: Attacker = {
  name: 'Node',
  holds: 'the credential of one machine, or root on it',
  can: [
    {
      says: 'Send heartbeats, report its health and boot, ship logs, and answer its tasks. All of it is marked as said by the machine.',
      shown_by: test(
        'test/api/evidence/evidence.test.ts',
        'appear on the timelines of the ids they name, with their actor',
      ),
    },
    {
      says: 'Lie about its own health. Rules decide by what the server receives and measures.',
      shown_by: test(
        'test/api/agents/agent-protocol.test.ts',
        'that change a status are durable before they are answered',
      ),
    },
  ],
  cannot: [
    {
      says: 'State something as the control plane: in facts, explanations, verdicts or ways out.',
      shown_by: attack('node/forged-facts')(
        'posts a fact of a kind reserved for the server',
        "makes an explanation blame a relay for the machine's silence",
        'makes a rule blame a relay in the verdict about the machine',
        "makes an explanation suggest the attacker's command as the next step",
      ),
    },
    {
      says: 'Bypass redaction of known secret formats by the structure of a fact.',
      shown_by: [
        ...attack('node/forged-facts')(
          'posts a fact shaped like a row change, so that the secret in it is stored in plain text',
        ),
        ...test('src/store/pg/redacted-rows.test.ts', '`set` in a fact of a %s is redacted like all of its data'),
      ],
    },
    {
      says: 'Replace the key of its machine and then sign that the machine is clean.',
      shown_by: attack('node/replaced-key')(
        'registers another key with a copied credential and signs with it that the machine is clean',
        'signs the key change with the new key',
        'makes an unproven key trusted by signing a second key change with it',
        'makes an operator accept a key other than the one shown',
      ),
    },
    {
      says: 'Lock the machine out with a copied credential, or join as it with another key.',
      shown_by: [
        ...attack('node/replaced-key')(
          'keeps the machine from rotating its credential by replacing its key',
          "joins under the machine's name with a key registered with a copied credential",
        ),
        ...test(
          'test/api/agents/agent-keys.test.ts',
          'treats a key stored by an earlier version as unproven, and still accepts the key before it',
        ),
      ],
    },
    {
      says: 'Renew a stolen credential without the machine’s key, or use it beyond its lifetime.',
      shown_by: attack('node/stolen-credential')(
        'ageing: renews a stolen credential without the key',
        'ageing: sends heartbeats with a stolen credential after its lifetime',
        'ageing: registers again with a stolen credential after its lifetime',
        'ageing: sends heartbeats with an old credential right after the server starts',
      ),
    },
    {
      says: 'After a restore, get the credential of a machine without its last proven key, with a signature that was made for something else, elsewhere, earlier or already used, or for a machine that uses a credential which the restored rows contain.',
      shown_by: [
        ...attack('node/lost-credential')(
          'lost credential: asks with a copied credential, but without the key',
          'lost credential: asks with the signature and the credential of another machine',
          'lost credential: replays a signature that the machine made for a rotation',
          'lost credential: sends a signature that the machine made ten minutes ago',
          'lost credential: repeats a request that the server has accepted',
          'lost credential: asks a server whose database was never restored',
          'lost credential: asks a month after the restoration has ended',
          'lost credential: asks for a machine that registered after the restore',
          'lost credential: replays a signature from before the restore',
          'lost credential: asks with the key from a copied disk while the machine sends heartbeats',
          'lost credential: asks for an instance that was replaced',
          'lost credential: asks with a key that it registered with a copied credential',
        ),
        ...test(
          'test/api/agents/credential-reissue.test.ts',
          'issues a credential to a machine that has a restored row, once for each signature',
        ),
      ],
    },
    {
      says: 'Fill the disk with what it reports, registers or rotates.',
      shown_by: [
        ...attack('node/floods')(
          'fills the store with facts about itself',
          'fills the store with boot stages',
          'fills the store with prerequisites',
          'fills the store by rotating its credential',
          'fills the store by flapping its status',
          'fills the store by registering repeatedly',
        ),
        ...attack('node/concurrent-writes')('overdraws its allowance with 200 concurrent requests'),
      ],
    },
    {
      says: 'Run a task that is signed by a task key that the server retired.',
      shown_by: attack('node/retired-task-key')('task keys: makes an agent run a task signed by a retired key'),
    },
    {
      says: 'Fill the log store, or keep the server busy with boot reports.',
      shown_by: [
        ...attack('node/log-bomb')('stores more log than its limit allows with lines that compress well'),
        ...attack('node/boot-report')('keeps the server busy with a boot report of stages that never end'),
      ],
    },
    {
      says: 'Act as another machine, or act after its machine was replaced.',
      shown_by: [
        ...authorization('refuses every caller except an unfenced machine'),
        ...test('test/api/agents/agent-protocol.test.ts', 'refuses a replaced instance with instance_fenced'),
      ],
    },
  ],
};
