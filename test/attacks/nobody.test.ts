/** Attacks by a caller without any credential. */
import { callRoute } from '../api/support/calls.ts';
import { heldBodyAttacks, unknownCredentialAttacks } from './nobody/batches.ts';
import { floodAttacks, tightBehindProxy } from './nobody/floods.ts';
import { behindDistantProxy, behindLocalProxy, forwardedAttacks, forwardedTextAttacks } from './nobody/forwarded.ts';
import { parserAttacks } from './nobody/parsers.ts';
import { reissueAttacks } from './nobody/reissues.ts';
import { plantedCookieAttacks, sessionAttacks } from './nobody/sessions.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('nobody', [
  {
    name: 'creates an admin token without sending a token',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: "throw new ApiProblem('token_missing');\n}",
        replace:
          "return { token_id: '' as never, name: 'nobody', role: 'admin', visibility: wholeFleet, expires_at: null, session_id: null };\n}",
      },
    ],
    async succeeds({ url }) {
      const { status } = await callRoute(url, 'token-create', { body: { name: 'mine', role: 'admin' } });
      return status === 201;
    },
  },
  ...parserAttacks,
  ...sessionAttacks,
  ...heldBodyAttacks,
]);

describeAttacks('nobody behind a distant proxy', forwardedAttacks, behindDistantProxy);
describeAttacks('nobody behind a local proxy', [...forwardedTextAttacks, ...plantedCookieAttacks], behindLocalProxy);
describeAttacks(
  'nobody with tight limits',
  [...floodAttacks, ...unknownCredentialAttacks, ...reissueAttacks],
  tightBehindProxy,
);
