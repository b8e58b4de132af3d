/** Operator in the threat model. */
import { type Attacker, attack, test } from './lines.ts';

export const operator: Attacker = {
  name: 'Operator',
  holds: 'a token for the whole fleet that is not an admin’s (operator or viewer)',
  can: [
    {
      says: 'Change budgets, limits and pauses of pools, and act on machines, with a reason on record.',
      shown_by: test(
        'test/api/access/secrets.test.ts',
        'lets an operator change what is not privileged, and nothing else',
      ),
    },
  ],
  cannot: [
    {
      says: 'Get a certificate from sealed evidence that it changed, or from rows added after the release, even with write access to the database.',
      shown_by: attack('operator/changed-evidence')(
        'chain: has a release certified that was changed in the database after it was sealed',
        'chain: has a certificate name another tenant by changing the row of the allocation',
        'chain: has a release certified as proven by a proof that it adds to the database afterwards',
      ),
    },
    {
      says: 'Read secrets, environments or scripts of pools, or find them in the audit.',
      shown_by: attack('operator/pool-fields')(
        '7: reads the environment and scripts of pools as a viewer',
        '7: reads them in the answer to a change of a budget',
        '7: lists the stored secrets as a viewer',
        '7: finds a stored secret in the audit after somebody pasted it',
        '15: reads an API key in the audit whose format the redactor did not know',
        '15: reads a password in the audit that stood on a command line',
      ),
    },
    {
      says: 'Stall the server with a hostile pool document.',
      shown_by: [
        ...attack('operator/yaml')(
          '1: freezes the server by a YAML pool of many keys',
          '1: freezes the server by a YAML pool of many errors',
          '1: has a YAML pool parsed that is larger than the limit',
          '1: keeps the server busy by YAML pools of many tokens',
        ),
        ...test('src/api/http/bodies/yaml.test.ts', 'parses %s in linear time by itself'),
      ],
    },
    {
      says: 'Rotate the key that signs tasks.',
      shown_by: attack('operator/task-keys')('task keys: rotates the key that signs tasks as an operator'),
    },
    {
      says: 'Run commands on machines or on the server’s host, or take roles of the cloud account.',
      shown_by: attack('operator/pool-fields')(
        '8: runs a command on external machines through a prerequisite',
        '8: makes the server probe private addresses',
        '8: gives machines a role of the cloud account',
        '8: runs a script on machines that hold a role of the cloud account',
        '8: moves machines into another network',
        "8: runs a command on the control plane's host by changing a local pool",
        '8: destroys stored values by sending their masks back',
      ),
    },
    {
      says: 'Change, delete or reorder sealed evidence without detection, even with the database owner’s rights.',
      shown_by: [
        ...test('src/store/integrity/verify-chain.test.ts', 'that was deleted is named'),
        ...test('src/store/integrity/verify-chain.test.ts', 'that was inserted among sealed ones is named'),
      ],
    },
  ],
};
