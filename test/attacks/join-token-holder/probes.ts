/** The holder of a join token makes the server probe addresses. */
import { fileURLToPath } from 'node:url';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { agentField, protocolPool } from '../../api/support/compat-clients.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';

const open = { probe: { allow_private: true }, heartbeat: { stale_after_seconds: 24 * 3600 } };
const ready = { lifecycle_status: 'ready' };
const names = (count: number) => Array.from({ length: count }, (_, place) => `machine-${place}`);

export const probeAttacks: Attack[] = [
  {
    name: 'keeps all probes busy, so that a machine of another pool cannot return',
    without: [
      {
        file: 'src/api/compat/restart.ts',
        find: '(probesByToken.get(join_token_id) ?? 0) >= maxProbesOfToken',
        replace: '(probesByToken.get(join_token_id) ?? 0) < 0',
      },
    ],
    async succeeds(server) {
      const { token } = await protocolPool(server, 'greedy', open);
      const { token: others } = await protocolPool(server, 'modest', open);
      // Accepts connections and never answers.
      const tarpit = await httpServer(() => {});
      const attacker = agentField(server.url, token);
      const victim = agentField(server.url, others);
      const at = (path: string) => ({ ...ready, base_url: `http://127.0.0.1:${tarpit.port}/${path}` });
      await Promise.all(names(40).map((name) => attacker.register(name, at(name))));
      await victim.register('victim', { ...ready, base_url: `http://127.0.0.1:${await freePort()}` });
      const flood = names(40).map((name) => attacker.register(name, at(`${name}/elsewhere`)));
      // The first refused call shows that all probes the token may have are in progress.
      await Promise.any(
        flood.map(async (each) => {
          if ((await each).body.code !== 'rate_limited') throw new Error('it was not put off');
        }),
      );
      const back = await victim.register('victim', { ...ready, base_url: `http://127.0.0.1:${await freePort()}` });
      await Promise.all(flood);
      return back.body.code === 'rate_limited';
    },
  },
];

export const fewJoins = ['--config', fileURLToPath(new URL('../support/few-joins.yaml', import.meta.url))];

export const costlyProbeAttacks: Attack[] = [
  {
    name: 'has addresses probed after its token used up its allowance',
    without: [
      {
        file: 'src/api/compat/register.ts',
        find: '  admitJoin(call, services, registration);\n',
        replace: '',
      },
    ],
    async succeeds(server) {
      const { token } = await protocolPool(server, 'overdrawn', open);
      let probes = 0;
      const former = await httpServer((_, reply) => {
        probes++;
        reply.end('well');
      });
      const attacker = agentField(server.url, token);
      await attacker.register('victim', { ...ready, base_url: `http://127.0.0.1:${former.port}` });
      let place = 0;
      await until('the allowance to be used up', async () => {
        const answers = await Promise.all(names(5).map((name) => attacker.register(`${name}-${place}`, ready)));
        place++;
        return answers.some(({ body }) => body.code === 'write_limit_reached');
      });
      const before = probes;
      await attacker.register('victim', { ...ready, base_url: 'http://127.0.0.1:1' });
      return probes > before;
    },
  },
];
