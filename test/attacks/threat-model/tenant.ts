/** The threat model for tenants. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const tenant: Attacker = {
  name: 'Tenant',
  holds: 'a token of one tenant',
  can: [
    {
      says: 'Allocate, read and release its own allocations, and state facts about them.',
      shown_by: test('test/api/evidence/evidence.test.ts', 'are accepted from a tenant only about its own resources'),
    },
    {
      says: 'Fetch a release certificate of its own allocation, and verify it offline.',
      shown_by: test(
        'test/api/evidence/evidence-seals.test.ts',
        'issues no certificate before the release, and issues one to the tenant afterwards',
      ),
    },
  ],
  cannot: [
    {
      says: 'Confirm guesses at secrets of other pools by printing them on its own machine.',
      shown_by: attack('tenant/secret-guesses')(
        "secrets: confirms a guess at another pool's secret in its own log",
        'secrets: confirms a guess at a short secret in a fact about its machine',
      ),
    },
    {
      says: 'See or change what belongs to another tenant.',
      shown_by: [
        ...authorization('shows nothing of one tenant to another'),
        ...attack('tenant/certificates')("chain: fetches the release certificate of another tenant's allocation"),
        ...attack('tenant/visibility')(
          'tenancy: lists the allocations of another tenant',
          'tenancy: lists the operations of another tenant',
          'tenancy: lists the machines of another tenant',
          'tenancy: reads the machines of another tenant through the fleet route',
          'tenancy: reads the timeline of an allocation of another tenant',
          'tenancy: finds an allocation of another tenant by its id',
          'tenancy: reads the timeline of a machine after it went to another tenant',
          'tenancy: reads the log of a machine after it went to another tenant',
          'tenancy: sees the facts of another tenant in its live stream',
          'tenancy: reads the history of another tenant from an old cursor',
          "tenancy: lists what only the fleet's operators may list",
        ),
      ],
    },
    {
      says: 'Read what a machine reported while another tenant had it.',
      shown_by: attack('tenant/former-tenant')(
        'reads the report that the machine sent for another tenant',
        'reads boot stages that the machine sent before the tenant got the machine',
        'reads boot stages reported while another tenant had the machine',
      ),
    },
    {
      says: 'State facts as the control plane, or about a machine after its release.',
      shown_by: attack('tenant/former-tenant')(
        'posts a fact of a kind reserved for the server',
        'states a fact about an allocation after its release',
        'states a fact about a former machine through a current allocation',
      ),
    },
    {
      says: 'Take the event streams or the log searches that others need.',
      shown_by: [
        ...attack('tenant/streams')(
          'holds more event streams than one token may',
          'holds more event streams than one tenant may, with several tokens',
          'takes all event streams for tenants, together with two other tenants',
          "takes the event streams for the fleet's operators, together with other tenants",
          'reads more long histories at once than one token may',
          'reads more long histories at once than one tenant may, with several tokens',
        ),
        ...attack('tenant/log-search')(
          'searches a whole log with one call',
          'searches more logs at once than one token may',
          'searches more logs at once than one tenant may, with several tokens',
          'follows more logs than one token may',
          'follows more logs than one tenant may, with several tokens',
        ),
      ],
    },
    {
      says: 'Fill the disk, or slow others down with many requests, sequential or concurrent.',
      shown_by: [
        ...attack('tenant/floods')(
          'fills the store with facts about its allocation',
          'fills the store with allocations',
          'fills the audit with requests that fail',
          'calls without a rate limit',
          'reads pages of many bytes without a limit',
          'opens console sessions without a limit',
          'fills the store together with other tenants',
        ),
        ...attack('tenant/concurrent-writes')('overdraws its allowance with 200 concurrent requests'),
      ],
    },
    {
      says: 'Make a machine unusable for its next tenant by writing too much.',
      shown_by: [
        ...attack('tenant/debts')(
          'leaves its write debt to the next tenant of the machine',
          'writes so much that its machine cannot renew its credential',
        ),
        ...test(
          'src/store/agents/reports.test.ts',
          'drops a deferred report that was received before the machine went to another tenant',
        ),
      ],
    },
    {
      says: 'See or end the sessions of other people.',
      shown_by: attack('tenant/sessions')(
        'sees who else is signed in',
        'sees all sessions as the admin of its tenant',
        'signs an admin out',
      ),
    },
    {
      says: 'Gain access outside its tenant by signing in, or guess tokens through sign-in.',
      shown_by: attack('tenant/sessions')(
        'sees the whole fleet after signing in',
        'guesses tokens at sign-in while sending its own token',
      ),
    },
  ],
};
