/** Tenant in the threat model. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const tenant: Attacker = {
  name: 'Tenant',
  holds: 'a token of one tenant',
  can: [
    {
      says: 'Allocate, read and release its own allocations, and state facts about them.',
      shown_by: test('test/api/evidence/evidence.test.ts', 'may be told by a tenant of its own, and of nobody else’s'),
    },
    {
      says: 'Fetch a release certificate of its own allocation, and verify it offline.',
      shown_by: test(
        'test/api/evidence/evidence-seals.test.ts',
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
          'src/store/agents/reports.test.ts',
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
};
