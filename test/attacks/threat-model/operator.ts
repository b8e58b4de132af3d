/** The threat model for operators. */
import { type Attacker, attack, test } from './lines.ts';

export const operator: Attacker = {
  name: 'Operator',
  holds: 'a token for the whole fleet that is not an admin’s (operator or viewer)',
  can: [
    {
      says: 'Change budgets, limits and pauses of pools, and act on machines, with a reason on record.',
      shown_by: test('test/api/access/secrets.test.ts', 'lets an operator change only unprivileged fields'),
    },
  ],
  cannot: [
    {
      says: 'Get a certificate from sealed evidence that it changed, or from rows added after the release, even with write access to the database.',
      shown_by: attack('operator/changed-evidence')(
        'chain: gets a certificate for a release that was changed in the database after sealing',
        "chain: makes a certificate name another tenant by changing the allocation's row",
        'chain: gets a release certified as proven by adding a proof to the database after the release',
      ),
    },
    {
      says: 'Read secrets, environments or scripts of pools, or find them in the audit.',
      shown_by: attack('operator/pool-fields')(
        'reads the environment and scripts of pools as a viewer',
        'reads the environment and scripts of a pool in the answer to a budget change',
        'lists the stored secrets as a viewer',
        'finds a stored secret in the audit after a person pasted it',
        'reads an API key in the audit that is recognizable only by its prefix',
        'reads a password from a command line in the audit',
      ),
    },
    {
      says: 'Stall the server with a hostile pool document.',
      shown_by: [
        ...attack('operator/yaml')(
          'freezes the server with a YAML pool of many keys',
          'freezes the server with a YAML pool of many errors',
          'sends a YAML pool larger than the limit',
          'keeps the server busy with YAML pools of many tokens',
        ),
        ...test('src/api/http/bodies/yaml.test.ts', 'parses %s in linear time without the limits'),
      ],
    },
    {
      says: 'Rotate the key that signs tasks.',
      shown_by: attack('operator/task-keys')('task keys: rotates the key that signs tasks as an operator'),
    },
    {
      says: 'Run commands on machines or on the server’s host, or gain IAM roles.',
      shown_by: attack('operator/pool-fields')(
        'runs a command on external machines through a prerequisite',
        'makes the server probe private addresses',
        'gives machines an IAM role',
        'runs a script on machines that have an IAM role',
        'moves machines into another network',
        "runs a command on the control plane's host by changing a local pool",
        'destroys stored values by sending their masks back',
      ),
    },
    {
      says: 'Change, delete or reorder sealed evidence without detection, even with the database owner’s rights.',
      shown_by: [
        ...test('src/store/integrity/verify-chain.test.ts', 'that was deleted'),
        ...test('src/store/integrity/verify-chain.test.ts', 'that was inserted at a sealed position'),
      ],
    },
  ],
};
