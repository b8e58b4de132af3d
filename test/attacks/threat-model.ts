/**
 * The threat model as data: seven attackers, what each can and cannot do, and the test that shows each line. SECURITY.md holds
 * it as tables (`node scripts/generate-threat-model.ts`); threat-model.test.ts checks the page and the tests it names.
 */
export interface ShownBy {
  /** From the root of the repository. */
  file: string;
  /** The title of a test or attack in that file, as it is written there. */
  title: string;
}

export interface ThreatLine {
  says: string;
  shown_by: ShownBy[];
}

export interface Attacker {
  name: string;
  holds: string;
  can: ThreatLine[];
  cannot: ThreatLine[];
}

const attack =
  (file: string) =>
  (...titles: string[]): ShownBy[] =>
    titles.map((title) => ({ file: `test/attacks/${file}.ts`, title }));

const test = (file: string, title: string): ShownBy[] => [{ file, title }];

const authorization = (title: string) => test('test/api/authorization.test.ts', title);

export const attackers: Attacker[] = [
  {
    name: 'Nobody',
    holds: 'a network connection to the server',
    can: [
      {
        says: 'Read the public routes: health, the console’s files, the API’s description, public keys, the agent’s bundle.',
        shown_by: authorization(
          'has exactly the public routes of the specification, public keys, and the agent, which holds no secret',
        ),
      },
      {
        says: 'Cause audit entries that name its address.',
        shown_by: authorization('keeps every denial in the audit, with who was refused what'),
      },
    ],
    cannot: [
      {
        says: 'Use any other route.',
        shown_by: [
          ...authorization('refuses whoever is nobody'),
          { file: 'test/attacks/nobody.test.ts', title: 'creates an admin token without showing one' },
        ],
      },
      {
        says: 'Stall the server with a hostile body, header or address.',
        shown_by: [
          ...attack('nobody/parsers')(
            '1: has YAML parsed at the session route',
            '1: has a body parsed at the session route that is larger than any token',
            '1: has a refusal repeat a name of 100 KB',
          ),
          ...test('test/api/hostile-bodies.test.ts', 'keep /healthz from nobody'),
        ],
      },
      {
        says: 'Fill the disk with refusals, from one address or from many.',
        shown_by: attack('nobody/floods')(
          '4: fills the audit from many addresses',
          '4: fills the audit with ever other targets',
        ),
      },
      {
        says: 'Block other callers with large slow bodies or batches of unknown credentials.',
        shown_by: [
          ...attack('nobody/batches')(
            '5: has unknown credentials looked up without end',
            '5: has the server hold many large bodies that arrive slowly',
          ),
          ...test(
            'src/api/held/body-budget.test.ts',
            'a body that is not there in time is given up, one that is being served is not',
          ),
        ],
      },
      {
        says: 'Choose the address that the audit names, or bypass the origin check with forged proxy headers.',
        shown_by: attack('nobody/forwarded')(
          '4: forges the audit actor by X-Forwarded-For',
          '4: passes the origin check by X-Forwarded-Host',
          '4: names itself as it likes in the audit through a trusted proxy',
        ),
      },
      {
        says: 'Use a stolen session after its owner signed out, after it was revoked, idle for hours, or past its end.',
        shown_by: attack('nobody/sessions')(
          '12: uses a copied cookie after its owner signed out',
          '12: uses a copied cookie on another replica after its owner signed out',
          '12: goes on reading a stream whose session was revoked',
          '12: uses a cookie that was idle for hours',
          '12: uses a cookie beyond its longest life',
        ),
      },
      {
        says: 'Guess tokens at speed, or plant a session cookie from a neighbouring host.',
        shown_by: attack('nobody/sessions')(
          '12: guesses tokens without being slowed down',
          '12: plants a session under the name that other hosts of the domain may set',
        ),
      },
    ],
  },
  {
    name: 'Tenant',
    holds: 'a token of one tenant',
    can: [
      {
        says: 'Allocate, read and release its own allocations, and state facts about them.',
        shown_by: test('test/api/evidence.test.ts', 'may be told by a tenant of its own, and of nobody else’s'),
      },
      {
        says: 'Fetch a release certificate of its own allocation, and verify it offline.',
        shown_by: test(
          'test/api/evidence-seals.test.ts',
          'there is no certificate before the release, and a tenant gets its own',
        ),
      },
    ],
    cannot: [
      {
        says: 'Confirm guesses at secrets of other pools by printing them on its own machine.',
        shown_by: attack('tenant/secret-guesses')(
          "secrets: confirms a guess at another pool's secret in its own log",
          'secrets: confirms a guess at a short secret in a fact of its machine',
        ),
      },
      {
        says: 'See or change what belongs to another tenant.',
        shown_by: [
          ...authorization('shows and gives another tenant nothing'),
          ...attack('tenant/certificates')("chain: fetches the release certificate of another tenant's allocation"),
          ...attack('tenant/visibility')(
            'tenancy: lists the allocations of another tenant',
            'tenancy: lists the operations of another tenant',
            'tenancy: lists the machines of another tenant',
            'tenancy: reads the machines of another tenant in the compact fleet',
            'tenancy: reads the timeline of an allocation of another tenant',
            'tenancy: finds an allocation of another tenant by its id',
            'tenancy: reads the timeline of a machine after it went to another tenant',
            'tenancy: reads the log of a machine after it went to another tenant',
            'tenancy: sees the facts of another tenant in its live stream',
            'tenancy: reads the history of another tenant from an old cursor',
            'tenancy: lists what only those who run the fleet may list',
          ),
        ],
      },
      {
        says: 'Read what a machine reported while another tenant had it.',
        shown_by: attack('tenant/former-tenant')(
          '14: reads what the machine reported while another tenant had it',
          '14: reads the boot stages of a machine that was handed over without a date',
          '14: reads the boot stages that were reported while another tenant had the machine',
        ),
      },
      {
        says: 'State facts as the control plane, or about a machine after its release.',
        shown_by: attack('tenant/former-tenant')(
          '3: posts a fact of a kind that the server writes',
          '3: adds to the story of an allocation after its release',
          '3: adds to the story of a machine that it had before, by an allocation that it has now',
        ),
      },
      {
        says: 'Take the event streams or the log searches that others need.',
        shown_by: [
          ...attack('tenant/streams')(
            '9: holds more event streams by one token than a token may',
            '9: holds more event streams by several tokens than a tenant may',
            '9: takes, with two other tenants, every event stream that tenants may have',
            '9: takes, with other tenants, the event streams of those who run the fleet',
            '9: has more long histories read at once by one token than a token may',
            '9: has more long histories read at once by several tokens than a tenant may',
          ),
          ...attack('tenant/log-search')(
            '11: has a whole log searched by one call',
            '11: searches more logs at once by one token than a token may',
            '11: searches more logs at once by several tokens than a tenant may',
            '9: follows more logs by one token than a token may',
            '9: follows more logs by several tokens than a tenant may',
          ),
        ],
      },
      {
        says: 'Fill the disk, or slow others down with many requests, sequential or concurrent.',
        shown_by: [
          ...attack('tenant/floods')(
            '5: fills the store with facts about its allocation',
            '5: fills the store with allocations',
            '5: fills the audit with requests that fail',
            '5: asks as often as it likes',
            '5: has long pages read without end',
            '5: opens console sessions without end',
            '5: fills the store together with other tenants',
          ),
          ...attack('tenant/concurrent-writes')('5: overdraws its allowance by 200 requests at once'),
        ],
      },
      {
        says: 'Make a machine unusable for its next tenant by writing too much.',
        shown_by: [
          ...attack('tenant/debts')(
            '5: leaves its write debt to the next tenant of the machine',
            '5: keeps its machine from renewing its credential by writing too much',
          ),
          ...test(
            'src/store/claims.test.ts',
            'a deferred report from before the machine went to another tenant is dropped',
          ),
        ],
      },
      {
        says: 'See or end the sessions of other people.',
        shown_by: attack('tenant/sessions')(
          '12: sees who else is signed in',
          '12: sees everybody’s sessions as the admin of its tenant',
          '12: signs an admin out',
        ),
      },
      {
        says: 'Gain access outside its tenant by signing in, or guess tokens through sign-in.',
        shown_by: attack('tenant/sessions')(
          '12: leaves its tenant by signing in',
          '12: guesses tokens at the sign-in while it shows its own',
        ),
      },
    ],
  },
  {
    name: 'Node',
    holds: 'the credential of one machine, or root on it',
    can: [
      {
        says: 'Beat, report its health and boot, ship logs, and answer its tasks. All of it is marked as its statement.',
        shown_by: test('test/api/evidence.test.ts', 'join the story of whatever they name, with who told them'),
      },
      {
        says: 'Lie about its own health. Rules decide by what the server hears and measures.',
        shown_by: test('test/api/agent-protocol.test.ts', 'that change a status are durable before they are answered'),
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
          ...test('src/store/redacted-rows.test.ts', '`set` in a fact of a %s is redacted like all of its data'),
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
            'test/api/agent-keys.test.ts',
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
          ...test('test/api/agent-protocol.test.ts', 'an old instance is told that it was replaced'),
        ],
      },
    ],
  },
  {
    name: 'Join-token holder',
    holds: 'a join token of one pool: valid, expired or spent',
    can: [
      {
        says: 'Add new machines to that pool while the token is valid, up to its uses and the pool’s `max_nodes`.',
        shown_by: test(
          'test/api/agent-protocol.test.ts',
          'by join token: bounded in uses, time and until revoked, for new names only',
        ),
      },
      {
        says: 'Speak for AgentField machines of that pool from their own endpoint: that protocol has no credential.',
        shown_by: test(
          'test/api/door-returns.test.ts',
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
            'test/api/agent-protocol.test.ts',
            'a known name needs its credential or its key, and never comes back on a join token alone',
          ),
        ],
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
  },
  {
    name: 'Relay',
    holds: 'a relay token of one pool, and the traffic that passes through it',
    can: [
      {
        says: 'Pass on beats with the machines’ own credentials, delay them, or drop them.',
        shown_by: test('test/api/relay.test.ts', 'serves a real agent, from its registration to its goodbye'),
      },
    ],
    cannot: [
      {
        says: 'Speak for a machine whose credential it does not have.',
        shown_by: attack('relay/unproven-beats')(
          '6: takes a machine of its pool offline by naming it',
          '6: degrades a machine of its pool over the stream by naming it',
          '6: keeps a dead machine alive with plain beats',
        ),
      },
      {
        says: 'Use any route of people.',
        shown_by: test('test/api/relay.test.ts', 'passes on all else of the agent protocol as it is, and nothing more'),
      },
    ],
  },
  {
    name: 'Operator',
    holds: 'a token for the whole fleet that is not an admin’s (operator or viewer)',
    can: [
      {
        says: 'Change budgets, limits and pauses of pools, and act on machines, with a reason on record.',
        shown_by: test('test/api/secrets.test.ts', 'lets an operator change what is not privileged, and nothing else'),
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
          ...test('src/api/bodies/yaml.test.ts', 'parses %s in linear time by itself'),
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
  },
  {
    name: 'Web page',
    holds: 'a page that a signed-in person opens in their browser',
    can: [
      {
        says: 'Link to the console. The person lands there, and nothing happens by itself.',
        shown_by: test('test/browser/sign-in.test.ts', 'never follows a link to somewhere else'),
      },
    ],
    cannot: [
      {
        says: 'Act with that person’s session, or read through it.',
        shown_by: [
          ...attack('web-page/cross-origin')(
            'page: creates a token with the session of the person who opened it',
            'page: creates a token from a sandboxed frame, which has no origin',
            'page: reads the fleet under a name of its own that resolves to the server',
          ),
          ...authorization('refuses a foreign page'),
        ],
      },
      {
        says: 'Show the console in a frame.',
        shown_by: attack('web-page/cross-origin')('page: shows the console in a frame and has people click in it'),
      },
    ],
  },
];
