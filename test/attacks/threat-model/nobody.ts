/** The threat model for callers without any credential. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const nobody: Attacker = {
  name: 'Nobody',
  holds: 'a network connection to the server',
  can: [
    {
      says: 'Read the public routes: health, the console’s files, the API’s description, public keys, the agent’s bundle.',
      shown_by: authorization(
        'has exactly these public routes: health, public keys, and the agent bundle, which holds no secret',
      ),
    },
    {
      says: 'Cause audit entries that name its address.',
      shown_by: authorization('records every denial in the audit, with its operation and code'),
    },
  ],
  cannot: [
    {
      says: 'Use any other route.',
      shown_by: [
        ...authorization('refuses a caller without a valid credential'),
        { file: 'test/attacks/nobody.test.ts', title: 'creates an admin token without sending a token' },
      ],
    },
    {
      says: 'Stall the server with a hostile body, header or address.',
      shown_by: [
        ...attack('nobody/parsers')(
          'sends YAML to the session route',
          'sends a body larger than any token to the session route',
          'makes the server repeat a field name of 100 KB in its refusal',
        ),
        ...test('test/api/input/hostile-bodies.test.ts', 'hostile bodies do not block /healthz'),
      ],
    },
    {
      says: 'Fill the disk with refusals, from one address or from many.',
      shown_by: attack('nobody/floods')('fills the audit from many addresses', 'fills the audit with changing targets'),
    },
    {
      says: 'Block other callers with large slow bodies or batches of unknown credentials.',
      shown_by: [
        ...attack('nobody/batches')(
          'looks up unknown credentials without a limit',
          'makes the server hold many large, slow bodies',
        ),
        ...test(
          'src/api/limits/held/body-budget.test.ts',
          'reports a body that arrives too slowly as late, but not a request whose body is complete',
        ),
      ],
    },
    {
      says: 'Ask for credentials of machines without a limit, or learn from the refusal whether a machine exists.',
      shown_by: [
        ...attack('nobody/reissues')(
          'asks for new credentials without a limit',
          'learns from a refused signature whether an instance exists',
        ),
        ...authorization('issue no credential without a signature by the key of the machine'),
      ],
    },
    {
      says: 'Choose the address that the audit names, or bypass the origin check with forged proxy headers.',
      shown_by: attack('nobody/forwarded')(
        'forges the audit actor with X-Forwarded-For',
        'passes the origin check with X-Forwarded-Host',
        'chooses its name in the audit through a trusted proxy',
      ),
    },
    {
      says: 'Use a stolen session after its owner signed out, after it was revoked, idle for hours, or past its end.',
      shown_by: attack('nobody/sessions')(
        'uses a copied cookie after its owner signed out',
        'uses a copied cookie on another replica after its owner signed out',
        'keeps reading a stream after the session was revoked',
        'uses a cookie that was idle for hours',
        'uses a cookie beyond its maximum lifetime',
      ),
    },
    {
      says: 'Guess tokens at speed, or plant a session cookie from a neighbouring host.',
      shown_by: attack('nobody/sessions')(
        'guesses tokens without being slowed down',
        'plants a session cookie from another host of the domain',
      ),
    },
  ],
};
