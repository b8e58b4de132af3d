/** Nobody in the threat model. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const nobody: Attacker = {
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
        ...test('test/api/input/hostile-bodies.test.ts', 'keep /healthz from nobody'),
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
          'src/api/limits/held/body-budget.test.ts',
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
};
