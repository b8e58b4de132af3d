/** A caller without a credential attacks the route that issues credentials for signatures. */
import { randomUUID } from 'node:crypto';
import { newKeyPair } from '../../../src/agent/connection/keys.ts';
import { sendReissue, signReissue } from '../../api/support/lost-credential.ts';
import type { Attack } from '../support/attack.ts';
import { countRefused, startMachineInNewPool } from '../support/floods.ts';

const sign = (node_instance_id: string) =>
  signReissue({ node_instance_id, credential: 'swc_guessed', private_key: newKeyPair() });

export const reissueAttacks: Attack[] = [
  {
    name: 'asks for new credentials without a limit',
    without: [{ file: 'src/api/routes/agent.ts', find: 'endLookup(isIssued ? 0 : 1);', replace: 'endLookup(0);' }],
    async succeeds({ url }) {
      const options = { headers: { 'x-forwarded-for': '198.51.100.77' } };
      return (await countRefused(80, () => sendReissue(url, sign(`inst_${randomUUID()}`), options))) === 0;
    },
  },
  {
    name: 'learns from a refused signature whether an instance exists',
    without: [
      {
        file: 'src/api/routes/agent.ts',
        find: "if (!instance || !isSigned) throw new ApiProblem('reissue_refused');",
        replace:
          "if (!instance) throw new ApiProblem('reissue_refused', 'It is unknown.'); if (!isSigned) throw new ApiProblem('reissue_refused');",
      },
    ],
    async succeeds(server) {
      const { node_instance_id } = await startMachineInNewPool(server, 'looked-for');
      const options = { headers: { 'x-forwarded-for': '198.51.100.78' } };
      const [known, unknown] = await Promise.all(
        [node_instance_id, `inst_${randomUUID()}`].map(async (id) => {
          const { status, body } = await sendReissue(server.url, sign(id), options);
          return JSON.stringify({ status, ...body, correlation_id: '' });
        }),
      );
      return known !== unknown;
    },
  },
];
